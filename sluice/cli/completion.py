"""sluice completion bash|zsh|fish: print a script that completes commands, options, stacks and functions in a shell.

  source <(sluice completion bash)                       in ~/.bashrc
  source <(sluice completion zsh)                        in ~/.zshrc, after compinit
  sluice completion fish > ~/.config/fish/completions/sluice.fish

The script has the names of this version: make it anew after an update.
"""

from __future__ import annotations

import argparse
from typing import Any

from sluice.cli.common.options import add_command
from sluice.cli.common.parsers import options_of
from sluice.engine.functions import ready_functions
from sluice.report.formats.find import FORMATS
from sluice.stacks.find import stack_names

_WITH_STACK = ("run", "build", "explain", "show", "bench", "trace")
"""Commands whose first argument is a stack."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "completion", __doc__, action)
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="for which shell")
    parser.set_defaults(commands=commands)


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    parsers: dict[str, argparse.ArgumentParser] = options.commands.choices
    words = {name: [text for item in options_of(parser) for text in item.names] for name, parser in parsers.items()}
    print(_fish(parsers) if options.shell == "fish" else _bash(words, options.shell))
    return 0


def _bash(words: dict[str, list[str]], shell: str) -> str:
    """A script for bash; zsh runs it by its own emulation."""
    cases = "\n".join(f'        {name}) words="{" ".join(texts)}" ;;' for name, texts in words.items())
    lines = ["autoload -U +X bashcompinit && bashcompinit"] if shell == "zsh" else []
    lines.append(f"""\
_sluice() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
    local command="${{COMP_WORDS[1]}}" words="" names=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$current"))
        return
    fi
    case $before in
        -f) names="{" ".join(ready_functions())}" ;;
        --stack) names="{" ".join(stack_names())}" ;;
        --format) COMPREPLY=($(compgen -W "{" ".join(one.name for one in FORMATS)}" -- "$current")); return ;;
        -i) COMPREPLY=($(compgen -W "any $(ls /sys/class/net 2>/dev/null)" -- "$current")); return ;;
    esac
    if [ -n "$names" ]; then
        COMPREPLY=($(compgen -W "$names" -- "$current") $(compgen -f -- "$current"))
        return
    fi
    case $command in
{cases}
    esac
    case $current in
        -*) COMPREPLY=($(compgen -W "$words" -- "$current")); return ;;
    esac
    COMPREPLY=($(compgen -f -- "$current"))
    case $command in
        functions) COMPREPLY=($(compgen -W "{" ".join(ready_functions())}" -- "$current")) ;;
        {"|".join(_WITH_STACK)})
            [ "$COMP_CWORD" -ne 2 ] || COMPREPLY+=($(compgen -W "{" ".join(stack_names())}" -- "$current")) ;;
    esac
}}
complete -o filenames -F _sluice sluice""")
    return "\n".join(lines)


def _fish(parsers: dict[str, argparse.ArgumentParser]) -> str:
    lines = ["complete -c sluice -e"]
    for name, parser in parsers.items():
        brief = _quoted((parser.description or "").split("\n", 1)[0].partition(": ")[2])
        lines.append(f"complete -c sluice -n __fish_use_subcommand -f -a {name} -d {brief}")
        condition = f"-n '__fish_seen_subcommand_from {name}'"
        if name in _WITH_STACK:
            lines.append(f"complete -c sluice {condition} -a '{' '.join(stack_names())}'")
        for item in options_of(parser):
            names = " ".join(f"-l {text[2:]}" if text.startswith("--") else f"-s {text[1:]}" for text in item.names)
            values = {"-f": ready_functions(), "--format": [one.name for one in FORMATS], "--stack": stack_names()}
            found = next((values[text] for text in item.names if text in values), None)
            takes = f" -a '{' '.join(found)}' -r" if found else " -r" if item.value else ""
            lines.append(f"complete -c sluice {condition} {names}{takes} -d {_quoted(item.help)}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
