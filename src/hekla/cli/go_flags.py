"""Command lines as upstream's flag library takes them: a flag may be switched by name, `--watch=false`, and a short one
may have its value after an equals sign, `-r=5`. What is written so is put into click's words before click reads it.
Words that a verb has no use for are left alone, where the program was called by upstream's name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

from hekla.cli.log_flags import TakesLogFlags, is_upstreams

_ON = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_OFF = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class GoCommand(TakesLogFlags):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.allow_extra_args = ctx.allow_extra_args or is_upstreams(ctx)
        options = {name: one for one in self.get_params(ctx) if isinstance(one, click.Option) for name in one.opts}
        return super().parse_args(ctx, _Reading(ctx, options).in_clicks_words(args))


class GoGroup(TakesLogFlags, click.Group):
    command_class = GoCommand


class _Reading:
    """One command line being read. What is not understood is left as it is: click knows what to say of it."""

    def __init__(self, ctx: click.Context, options: Mapping[str, click.Option]) -> None:
        self._ctx = ctx
        self._options = options
        self._said: list[tuple[click.Option | None, list[str]]] = []

    def in_clicks_words(self, args: list[str]) -> list[str]:
        words = iter(args)
        for word in words:
            if word == "--":
                self._say(None, word, *words)
            elif word.startswith("--"):
                self._long(word, words)
            elif word.startswith("-") and word != "-":
                self._short(word, words)
            else:
                self._say(None, word)
        return [word for _, said in self._said for word in said]

    def _long(self, word: str, words: Iterator[str]) -> None:
        name, equals, value = word.partition("=")
        option = self._options.get(name)
        if option is None:
            self._say(None, word)
        elif _takes_value(option):
            self._say(option, word, *([] if equals or _stands_alone(option) else _next(words)))
        elif equals:
            self._switch(option, name, value)
        else:
            self._say(option, word)

    def _short(self, word: str, words: Iterator[str]) -> None:
        letters = word[1:]
        while letters:
            name, letters = f"-{letters[0]}", letters[1:]
            option = self._options.get(name)
            value = letters[1:] if letters.startswith("=") and len(letters) > 1 else ""
            if option is None:
                self._say(None, name + letters)
            elif _takes_value(option):
                self._say(option, name, *([value or letters] if letters else _next(words)))
            elif value:
                self._switch(option, name, value)
            else:
                self._say(option, name)
                continue
            return

    def _switch(self, option: click.Option, name: str, value: str) -> None:
        if value not in _ON | _OFF:
            raise click.BadParameter(f"{value!r} is not a valid boolean.", self._ctx, option)
        if value in _ON:
            self._say(option, name)
        else:
            # The last word counts.
            self._said = [(one, said) for one, said in self._said if one is not option]

    def _say(self, option: click.Option | None, *words: str) -> None:
        self._said.append((option, list(words)))


def _takes_value(option: click.Option) -> bool:
    return not option.is_flag and not option.count


def _stands_alone(option: click.Option) -> bool:
    """A value that is true where none is given: what follows is another word."""
    return bool(option.flag_value == "true")


def _next(words: Iterator[str]) -> list[str]:
    """The value of a flag that stands for itself; nothing at the end, of which click complains."""
    following = next(words, None)
    return [] if following is None else [following]
