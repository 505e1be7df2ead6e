"""Write completion scripts for bash, zsh and fish, from the definitions that ``--help`` shows.

The scripts contain commands, options and choices, so that most key presses start no Python. Only
columns and properties of the table on the line come from ``deltactl complete``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from deltactl.cli.help import CommandDoc
from deltactl.cli.options.declared import Declared
from deltactl.cli.reference.install import Shell
from dev.program import ProgramDoc
from dev.value_kinds import DYNAMIC, ValueKind, choices_of, kind_of

_GENERATED: Final = "# Generated from the options of the commands of deltactl."

_BASH: Final = """\
{generated}

_deltactl_table() {{
    local word
    for word in "$@"; do
        word=${{word/#\\~/$HOME}}
        if [[ $word == *://* || -d $word/_delta_log ]]; then
            printf '%s\\n' "$word"
            return
        fi
    done
}}

_deltactl_ask() {{
    local kind=$1 table
    shift
    table=$(_deltactl_table "$@")
    deltactl complete "$kind" ${{table:+"$table"}} 2>/dev/null
}}

_deltactl() {{
    local -a words
    # Split at blanks only: bash also splits at "=" and ":", which places and options contain.
    read -ra words <<<"${{COMP_LINE:0:COMP_POINT}}"
    [[ ${{COMP_LINE:COMP_POINT-1:1}} == ' ' ]] && words+=('')
    local current=${{words[${{#words[@]}}-1]}} previous='' command='' word
    (( ${{#words[@]}} > 1 )) && previous=${{words[${{#words[@]}}-2]}}
    for word in "${{words[@]:1:${{#words[@]}}-2}}"; do
        case $word in
            {names}) command=$word; break ;;
        esac
    done
    local typed=$current
    if [[ $current == --*=* ]]; then
        previous=${{current%%=*}}
        typed=${{current#*=}}
    fi
    typed=${{typed#[\\"\\']}}

    local kind=options values=''
    case $command:$previous in
{value_cases}
    esac
    if [[ $kind == options ]]; then
        case $command in
{option_cases}
        esac
        [[ $current == -* ]] || kind=positional
    fi
    if [[ $kind == positional ]]; then
        values=''
        case $command in
            '') values='{commands}' ;;
{positional_cases}
        esac
    fi

    COMPREPLY=()
    case $kind in
        files) mapfile -t COMPREPLY < <(compgen -f -- "$typed"); compopt -o filenames 2>/dev/null ;;
        directories)
            mapfile -t COMPREPLY < <(compgen -d -- "$typed"); compopt -o filenames 2>/dev/null ;;
        columns | data-columns | properties)
            values=$(_deltactl_ask "$kind" "${{words[@]:1}}")
            mapfile -t COMPREPLY < <(compgen -W "$values" -- "$typed")
            compopt -o nospace 2>/dev/null ;;
        nothing) ;;
        *) mapfile -t COMPREPLY < <(compgen -W "$values" -- "$typed") ;;
    esac
}}

complete -F _deltactl deltactl
"""

_ZSH: Final = """\
#compdef deltactl
{generated}

_deltactl_ask() {{
    local kind=$1 word table='' stop=''
    local -a found
    for word in $words; do
        word=${{word/#\\~/$HOME}}
        if [[ $word == *://* || -d $word/_delta_log ]]; then
            table=$word
            break
        fi
    done
    found=(${{(f)"$(deltactl complete $kind ${{table:+$table}} 2>/dev/null)"}})
    [[ $kind == properties ]] && stop='='
    compadd -S "$stop" -a found
}}

_deltactl_columns() {{ _deltactl_ask columns }}
_deltactl_data-columns() {{ _deltactl_ask data-columns }}
_deltactl_properties() {{ _deltactl_ask properties }}

_deltactl() {{
    local curcontext=$curcontext state line
    typeset -A opt_args
    local -a commands=(
{commands}
    )
    _arguments -C \\
{root} \\
        '1:command:->command' \\
        '*::argument:->arguments'
    case $state in
        command) _describe -t commands command commands ;;
        arguments)
            case $words[1] in
{cases}
            esac ;;
    esac
}}

if [[ $funcstack[1] == _deltactl ]]; then
    _deltactl "$@"
else
    compdef _deltactl deltactl
fi
"""

_FISH: Final = """\
{generated}

function __deltactl_ask
    set -l table
    for word in (commandline -opc)
        set -l place (string replace -r '^~' $HOME -- $word)
        if string match -q '*://*' -- $place; or test -d "$place/_delta_log"
            set table $place
            break
        end
    end
    deltactl complete $argv[1] $table 2>/dev/null
end

complete -c deltactl -f
{lines}
"""


def render_completion(shell: Shell, program: ProgramDoc) -> str:
    """Write the script of a shell."""
    renderers: Mapping[Shell, Callable[[ProgramDoc], str]] = {
        Shell.BASH: _render_bash,
        Shell.ZSH: _render_zsh,
        Shell.FISH: _render_fish,
    }
    return renderers[shell](program)


def _render_bash(program: ProgramDoc) -> str:
    names = [doc.name for _, doc in program.commands]
    everything = [program.root, *(doc for _, doc in program.commands)]
    return _BASH.format(
        generated=_GENERATED,
        names=" | ".join(names),
        commands=" ".join(names),
        value_cases="\n".join(line for doc in everything for line in _bash_values(doc)),
        option_cases="\n".join(
            f"            {_bash_name(doc)}) values='{_bash_options(doc)}' ;;" for doc in everything
        ),
        positional_cases="\n".join(line for doc in everything[1:] for line in _bash_argument(doc)),
    )


def _bash_name(doc: CommandDoc) -> str:
    return "''" if doc.name == "" else doc.name


def _bash_options(doc: CommandDoc) -> str:
    return " ".join(name for option in doc.options for name in option.names)


def _bash_values(doc: CommandDoc) -> list[str]:
    lines = []
    for option in doc.options:
        if not option.placeholder:
            continue
        patterns = " | ".join(f"{doc.name}:{name}" for name in option.names)
        kind = kind_of(option)
        values = f" values='{' '.join(choices_of(option))}'" if kind is ValueKind.CHOICES else ""
        lines.append(f"        {patterns}) kind={kind}{values} ;;")
    return lines


def _bash_argument(doc: CommandDoc) -> list[str]:
    if not doc.arguments:
        return []
    argument = doc.arguments[0]
    if kind_of(argument) is ValueKind.CHOICES:
        return [f"            {doc.name}) values='{' '.join(choices_of(argument))}' ;;"]
    return [f"            {doc.name}) kind={kind_of(argument)} ;;"]


def _brief(text: str) -> str:
    """Help in one line, without defaults and limits."""
    return text.partition("  [")[0].partition("; may be repeated")[0]


def _render_zsh(program: ProgramDoc) -> str:
    cases = []
    for _, doc in program.commands:
        specs = [_zsh_option(option) for option in doc.options]
        specs += [
            f"'{'*' * a.is_repeated}:{a.placeholder}:{_zsh_action(kind_of(a), choices_of(a))}'"
            for a in doc.arguments
        ]
        body = " \\\n".join(f"                        {spec}" for spec in specs)
        cases.append(
            f"                {doc.name})\n                    _arguments -s \\\n{body} ;;"
        )
    return _ZSH.format(
        generated=_GENERATED,
        commands="\n".join(
            f"        '{doc.name}:{_zsh_text(line)}'" for line, doc in program.commands
        ),
        root=" \\\n".join(f"        {_zsh_option(option)}" for option in program.root.options),
        cases="\n".join(cases),
    )


def _zsh_text(text: str) -> str:
    for char in ("\\", "[", "]", ":"):
        text = text.replace(char, f"\\{char}")
    return text.replace("'", "'\\''")


def _zsh_option(option: Declared) -> str:
    value = ""
    if option.placeholder:
        action = _zsh_action(kind_of(option), choices_of(option))
        value = f":{_zsh_text(option.placeholder)}:{action}"
    rest = f"[{_zsh_text(_brief(option.help))}]{value}'"
    names = [
        f"{name}=" if option.placeholder and name[:2] == "--" else name for name in option.names
    ]
    if option.is_repeated or option.option.is_counted:
        names = [f"*{name}" for name in names]
        return " ".join(f"'{name}{rest}" for name in names)
    excluded = f"({' '.join(option.names)})"
    return " ".join(f"'{excluded}{name}{rest}" for name in names)


def _zsh_action(kind: ValueKind, choices: Sequence[str]) -> str:
    if kind is ValueKind.CHOICES:
        return f"({' '.join(choices)})"
    if kind in DYNAMIC:
        return f"_deltactl_{kind}"
    return {ValueKind.FILES: "_files", ValueKind.DIRECTORIES: "_files -/"}.get(kind, " ")


def _render_fish(program: ProgramDoc) -> str:
    names = " ".join(doc.name for _, doc in program.commands)
    unseen = f"not __fish_seen_subcommand_from {names}"
    lines = [
        f"complete -c deltactl -n '{unseen}' -a {doc.name} -d '{_fish_text(line)}'"
        for line, doc in program.commands
    ]
    lines += [_fish_option(unseen, option) for option in program.root.options]
    for _, doc in program.commands:
        seen = f"__fish_seen_subcommand_from {doc.name}"
        lines += [_fish_option(seen, option) for option in doc.options]
        lines += [
            f"complete -c deltactl -n '{seen}' {_fish_action(kind_of(a), choices_of(a))}"
            for a in doc.arguments[:1]
            if kind_of(a) is not ValueKind.NOTHING
        ]
    return _FISH.format(generated=_GENERATED, lines="\n".join(lines))


def _fish_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _fish_option(condition: str, option: Declared) -> str:
    words = [f"complete -c deltactl -n '{condition}'"]
    words += [f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names]
    if option.placeholder:
        words.append(f"-r {_fish_action(kind_of(option), choices_of(option))}".rstrip())
    return " ".join((*words, f"-d '{_fish_text(_brief(option.help))}'"))


def _fish_action(kind: ValueKind, choices: Sequence[str]) -> str:
    if kind is ValueKind.CHOICES:
        return f"-a '{' '.join(choices)}'"
    if kind in DYNAMIC:
        return f"-a '(__deltactl_ask {kind})'"
    return {
        ValueKind.FILES: "-F",
        ValueKind.DIRECTORIES: "-a '(__fish_complete_directories)'",
    }.get(kind, "")
