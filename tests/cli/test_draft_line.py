from __future__ import annotations

import asyncio
import io

from hekla.cli.draft_line import DraftLine
from tests.integration.virtual_loop import run_virtually

_ERASED = "\r\x1b[K"


def test_the_newest_draft_stands_below_the_lines_and_makes_way_for_them() -> None:
    terminal = io.StringIO()

    async def main() -> None:
        line = DraftLine(terminal, lambda: 12)
        line.show("a", "a | 10%")
        line.show("a", "a | 20%")
        assert terminal.getvalue() == ""
        await asyncio.sleep(1)
        line.make_way("b")
        terminal.write("b | done\n")
        await asyncio.sleep(1)
        line.make_way("a")
        terminal.write("a | 100%\n")
        await asyncio.sleep(1)
        line.show("b", "b | 世界世界世界")
        await asyncio.sleep(1)
        line.leave()

    run_virtually(main())
    assert terminal.getvalue() == f"a | 20%{_ERASED}b | done\na | 20%{_ERASED}a | 100%\nb | 世界世 \n"
