"""Whether a pattern is one in Go's syntax of regular expressions, and in Go's words why not.

Python's own differs on both sides: it knows possessive repetitions and looking around, which Go does not, and not
`\\pL`, `\\z`, `[[:alpha:]]` or flags in the middle, which Go does. How a pattern nests is not limited here.
"""

from __future__ import annotations

import re

_MOST_REPEATED = 1000
_COUNT = re.compile(r"\{(0|[1-9][0-9]*)(?:,(0|[1-9][0-9]*)?)?\}")
_NAMED = re.compile(r"\(\?P?<")
_NAME = re.compile(r"\w+", re.ASCII)
_FLAGS = re.compile(r"\(\?([imsU]*)(-[imsU]+)?([:)])")
_NO_FLAG = re.compile(r"\(\?[imsU]*-?[imsU]*.?", re.DOTALL)
_UNICODE = re.compile(r"\\[pP](?:[CLMNPSZ]|\{\^?[A-Za-z_]+\})")
_PERL_CLASS = re.compile(r"\\[dDsSwW]")
_ALONE = re.compile(r"\\[AbBzdDsSwW]")
# One digit that is not 0 would refer back to a group.
_ESCAPED = re.compile(
    r"\\(?:(?P<octal>0[0-7]{0,2}|[1-7][0-7]{1,2})|x(?P<two>[0-9A-Fa-f]{2})|x\{(?P<hex>[0-9A-Fa-f]+)\}|(?P<sign>[afnrtv])"
    r"|(?P<itself>[\x00-/:-@\[-`{-\x7f]))"
)
_SIGNS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_POSIX = re.compile(r"\[:\^?(\w+):\]")
_POSIX_CLASSES = frozenset(
    {
        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
        "word", "xdigit",
    }
)  # fmt: skip


class _Fault(Exception):
    pass


def pattern_fault(pattern: str) -> str:
    """Empty when the pattern is one."""
    try:
        _Reader(pattern).read()
    except _Fault as fault:
        return str(fault)
    return ""


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._open = 0
        self._repeats_from: int | None = None  # where the repetition that was just read begins
        self._can_repeat = False

    def read(self) -> None:
        while self._at < len(self._pattern):
            begin, repeats_from = self._at, self._repeats_from
            self._repeats_from = None
            match self._pattern[begin]:
                case "(":
                    self._read_group()
                case ")":
                    self._close()
                case "|":
                    self._take(1, can_repeat=False)
                case "[":
                    self._read_class()
                case "*" | "+" | "?":
                    self._repeat(begin + 1, repeats_from)
                case "{" if found := _COUNT.match(self._pattern, begin):
                    self._check_count(found)
                    self._repeat(found.end(), repeats_from)
                case "\\":
                    self._read_escape()
                case _:
                    self._take(1)
        if self._open:
            raise _Fault(f"missing closing ): `{self._pattern}`")

    def _take(self, length: int, *, can_repeat: bool = True) -> None:
        self._at += length
        self._can_repeat = can_repeat

    def _repeat(self, end: int, before: int | None) -> None:
        if self._pattern.startswith("?", end):
            end += 1
        if before is not None:
            raise _Fault(f"invalid nested repetition operator: `{self._pattern[before:end]}`")
        if not self._can_repeat:
            raise _Fault(f"missing argument to repetition operator: `{self._pattern[self._at : end]}`")
        self._repeats_from = self._at
        self._at = end

    def _check_count(self, found: re.Match[str]) -> None:
        # What is longer than four digits is too much in any case.
        least = int(found[1][:5])
        most = int(found[2][:5]) if found[2] else least
        if max(least, most) > _MOST_REPEATED or most < least:
            raise _Fault(f"invalid repeat count: `{found[0]}`")

    def _read_group(self) -> None:
        pattern, at = self._pattern, self._at
        if not pattern.startswith("(?", at):
            self._open += 1
            self._take(1, can_repeat=False)
        elif named := _NAMED.match(pattern, at):
            self._read_name(named.end())
        elif found := _FLAGS.match(pattern, at):
            if found[3] == ":":
                self._open += 1
                self._take(len(found[0]), can_repeat=False)
            else:
                # Flags alone are nothing to repeat, and leave what came before them to be repeated.
                self._at = found.end()
        else:
            wrong = _NO_FLAG.match(pattern, at)
            assert wrong is not None
            if wrong.end() == len(pattern) and pattern[-1] in "imsU?":
                raise _Fault(f"missing closing ): `{pattern[at:]}`")
            raise _Fault(f"invalid or unsupported Perl syntax: `{wrong[0]}`")

    def _read_name(self, begin: int) -> None:
        closed = self._pattern.find(">", begin)
        if closed < 0:
            raise _Fault(f"invalid named capture: `{self._pattern[self._at :]}`")
        if not _NAME.fullmatch(self._pattern, begin, closed):
            raise _Fault(f"invalid named capture: `{self._pattern[self._at : closed + 1]}`")
        self._open += 1
        self._take(closed + 1 - self._at, can_repeat=False)

    def _close(self) -> None:
        if not self._open:
            raise _Fault(f"unexpected ): `{self._pattern}`")
        self._open -= 1
        self._take(1)

    def _read_escape(self) -> None:
        pattern, at = self._pattern, self._at
        if _ALONE.match(pattern, at):
            self._take(2)
        elif pattern.startswith("\\Q", at):
            end = pattern.find("\\E", at)
            literal = (len(pattern) if end < 0 else end) - at - 2
            self._take(literal + (2 if end < 0 else 4), can_repeat=literal > 0 or self._can_repeat)
        elif pattern.startswith(("\\p", "\\P"), at):
            self._take(_unicode_length(pattern, at))
        else:
            self._take(_escape_length(pattern, at))

    def _read_class(self) -> None:
        pattern, begin = self._pattern, self._at
        at = begin + (2 if pattern.startswith("[^", begin) else 1)
        first = True
        while first or not pattern.startswith("]", at):
            first = False
            posix = _POSIX.match(pattern, at)
            if posix:
                if posix[1] not in _POSIX_CLASSES:
                    raise _Fault(f"invalid character class range: `{posix[0]}`")
                at = posix.end()
            elif _PERL_CLASS.match(pattern, at):
                at += 2
            elif pattern.startswith(("\\p", "\\P"), at):
                at += _unicode_length(pattern, at)
            else:
                at = self._read_range(begin, at)
        self._at = begin
        self._take(at + 1 - begin)

    def _read_range(self, begin: int, at: int) -> int:
        """From the character at `at` to the end of it, or of the range that it begins."""
        low, end = self._character(begin, at)
        if not self._pattern.startswith("-", end) or self._pattern.startswith("-]", end):
            return end
        if end + 1 == len(self._pattern):
            return end
        high, end = self._character(begin, end + 1)
        if high < low:
            raise _Fault(f"invalid character class range: `{self._pattern[at:end]}`")
        return end

    def _character(self, begin: int, at: int) -> tuple[int, int]:
        """The number of a character of a class, and where it ends."""
        if at >= len(self._pattern):
            raise _Fault(f"missing closing ]: `{self._pattern[begin:]}`")
        if self._pattern[at] != "\\":
            return ord(self._pattern[at]), at + 1
        end = at + _escape_length(self._pattern, at)
        return _number(self._pattern, at), end


def _number(pattern: str, at: int) -> int:
    """The number of the character that the escape sequence at `at` stands for."""
    found = _ESCAPED.match(pattern, at)
    assert found is not None
    if found["octal"]:
        return int(found["octal"], 8)
    if found["two"] or found["hex"]:
        return int(found["two"] or found["hex"], 16)
    return _SIGNS[found["sign"]] if found["sign"] else ord(found["itself"])


def _unicode_length(pattern: str, at: int) -> int:
    """The length of the class of Unicode that is named at `at`."""
    known = _UNICODE.match(pattern, at)
    if known is None:
        end = pattern.find("}", at) + 1 or at + 3
        raise _Fault(f"invalid character class range: `{pattern[at:end]}`")
    return len(known[0])


def _escape_length(pattern: str, at: int) -> int:
    """The length of the escape sequence at `at`, which stands for one character."""
    if at + 1 == len(pattern):
        raise _Fault("trailing backslash at end of expression: ``")
    found = _ESCAPED.match(pattern, at)
    if found is None:
        raise _Fault(f"invalid escape sequence: `{pattern[at : at + 2]}`")
    return len(found[0])
