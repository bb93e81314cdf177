"""A tree as text, in which every operation stands in brackets: golden tests show by it what the parser understood."""

from __future__ import annotations

from sluice.service.lang import tree


def program_text(program: tree.Program) -> str:
    out: list[str] = []
    for each in program.types:
        out.append(f"type {each.name} {type_text(each.type)}")
        out += [f"  {field_text(item)}" for item in each.type.fields]
    for each in program.processes:
        out.append(f"process {each.name} {signature(each)}")
        out += body(each.body)
    for each in program.functions:
        results = " ".join(type_text(item) for item in each.results)
        out.append(f"function {each.name} {signature(each)} -> ({results})")
        out += body(each.body)
    out += [f"expression {text(each)}" for each in program.expressions]
    return "\n".join(out) + "\n"


def type_text(type: tree.TypeExpression) -> str:
    annotation = f" {annotation_text(type.annotation)}" if type.annotation else ""
    bound = f"{{{type.bound}}}" if type.bound is not None else ""
    if type.kind in ("record", "variant"):
        return f"{type.kind}{annotation}"
    if type.kind == "name":
        return type.name + annotation
    if type.items or type.kind == "tuple":
        return f"{type.kind}{bound}({' '.join(type_text(item) for item in type.items)}){annotation}"
    return ("-" if type.kind == "nothing" else type.kind) + annotation


def annotation_text(annotation: dict[str, object]) -> str:
    return "{" + ", ".join(f"{name}={value}" for name, value in annotation.items()) + "}"


def field_text(field: tree.FieldDeclaration) -> str:
    annotation = f" {annotation_text(field.annotation)}" if field.annotation else ""
    return f"{field.name} : {type_text(field.type)}{annotation}"


def signature(each: tree.Process | tree.Function) -> str:
    constants = f"{{{', '.join(each.constants)}}} " if each.constants else ""
    channels = []
    for channel in each.channels:
        sides = f"{type_text(channel.receives)}/{type_text(channel.sends)}"
        bound = f"{{{channel.bound}}}" if channel.bound is not None else ""
        channels.append(f"{f'[{sides}]{bound}' if channel.array else sides} {channel.name}")
    return f"{constants}({', '.join(channels)}; {', '.join(field_text(item) for item in each.parameters)})"


def body(each: tree.Body) -> list[str]:
    out: list[str] = []
    for state in each.states:
        wanted = f" : {type_text(state.wanted)}" if state.wanted else ""
        out.append(f"  {'global' if state.everywhere else 'local'} {state.name}{wanted} := {text(state.start)}")
    out += [f"  {line}" for line in text(each.expression).split("\n")]
    return out + [f"  except {handler.exception}: {text(handler.body)}" for handler in each.handlers]


def text(node: tree.Expression | None) -> str:
    match node:
        case None:
            return "-"
        case tree.Boolean() | tree.Integer():
            return str(node.value)
        case tree.Text():
            return f'"{node.value}"'
        case tree.Address():
            return node.value
        case tree.Name():
            return node.name
        case tree.Hole():
            return "_"
        case tree.Tuple():
            return f"<{' '.join(map(text, node.items))}>"
        case tree.List():
            return f"[{' '.join(map(text, node.items))}]"
        case tree.Record():
            return "{" + " ".join(f"{name}={text(item)}" for name, item in node.fields) + "}"
        case tree.Index():
            return f"{text(node.base)}[{text(node.index)}]"
        case tree.Field():
            return f"{text(node.base)}.{node.name}"
        case tree.Item():
            return f"{text(node.base)}.{node.number}"
        case tree.Unary():
            return f"({node.operator} {text(node.operand)})"
        case tree.Binary():
            return f"({text(node.left)} {node.operator} {text(node.right)})"
        case tree.Typed():
            return f"({text(node.value)} {'cast' if node.unsafe else 'typed'} {type_text(node.wanted)})"
        case tree.With():
            return f"({text(node.base)} with {node.name}={text(node.value)})"
        case tree.If():
            return f"if({text(node.condition)}, {text(node.then)}, {text(node.otherwise)})"
        case tree.Switch():
            cases = ", ".join(f"{text(case.pattern)}: {text(case.body)}" for case in node.cases)
            return f"switch({text(node.subject)}, {cases})"
        case tree.Let():
            wanted = f" : {type_text(node.wanted)}" if node.wanted else ""
            return f"let({node.name}{wanted} = {text(node.value)})"
        case tree.Assign():
            return f"({text(node.target)} := {text(node.value)})"
        case tree.For():
            start = f", {node.accumulator}={text(node.start)}" if node.accumulator else ""
            kind = "for unordered" if node.unordered else "for"
            return f"{kind}({node.name} in {text(node.over)}{start}, {text(node.body)})"
        case tree.Map():
            return f"{node.kind}({node.name} in {text(node.over)}, {text(node.body)})"
        case tree.FoldT():
            key = f"{node.element} {node.left} {node.right} by {text(node.key)} as {node.key_name}"
            return f"foldt({text(node.channels)}, {key}, {text(node.body)})"
        case tree.Call():
            given = [f"{f'{each.name} <- ' if each.name else ''}{text(each.value)}" for each in node.arguments]
            return f"{node.function}({', '.join(given)})"
        case tree.Dotted():
            return f"{text(node.operand)}.{text(node.call)}"
        case tree.Send():
            return f"({text(node.channel)} ! {text(node.value)})"
        case tree.Receive():
            return f"({'??' if node.peek else '?'} {text(node.channel)})"
        case tree.Can():
            return f"(can {text(node.what)})"
        case tree.Pipe():
            return f"({' ; '.join(map(text, node.sources))} => {' => '.join(map(text, node.stages))})"
        case tree.Sequence():
            return "\n".join(map(text, node.items))
        case tree.Parallel():
            return "\n".join(f"| {text(item)}" for item in node.items)
        case tree.CompileTime():
            return f"@{text(node.value)}@"
        case _:
            raise AssertionError(node)
