"""Markdown references from .proto files: every service, message and field with the comment that stands above it."""

import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf import descriptor_pb2

FieldType = descriptor_pb2.FieldDescriptorProto


@dataclass
class Proto:
    file: descriptor_pb2.FileDescriptorProto
    comments: dict[tuple[int, ...], str]


@dataclass
class Message:
    """A message with its full name within the package, and those nested in it."""

    name: str
    path: tuple[int, ...]
    type: descriptor_pb2.DescriptorProto
    nested: list["Message"] = field(default_factory=list)


def load(folder: Path, names: list[str]) -> dict[str, Proto]:
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["protoc", "-I", folder, "--include_source_info", f"--descriptor_set_out={out.name}", *names], check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(Path(out.name).read_bytes()).file
    return {file.name: Proto(file, {tuple(l.path): comment(l) for l in file.source_code_info.location}) for file in files}


def comment(location: descriptor_pb2.SourceCodeInfo.Location) -> str:
    """The comment above a declaration, or behind it on its line, on one line."""
    return " ".join((location.leading_comments or location.trailing_comments).split())


def cell(text: str) -> str:
    """Text of a table's cell: Markdown's own characters as they stand."""
    for character in ("\\", "|", "*", "_", "<", "[", "`"):
        text = text.replace(character, "\\" + character)
    return text


def short(type_name: str) -> str:
    return type_name.removeprefix(".kinora.v1.").removeprefix(".")


def type_of(declared: descriptor_pb2.FieldDescriptorProto, message: Message) -> str:
    entries = {nested.name: nested for nested in message.type.nested_type if nested.options.map_entry}
    entry = entries.get(declared.type_name.rsplit(".", 1)[-1]) if declared.type_name else None
    if entry:
        return f"map of {type_of(entry.field[0], message)} to {type_of(entry.field[1], message)}"
    if declared.type in (FieldType.TYPE_MESSAGE, FieldType.TYPE_ENUM):
        name = short(declared.type_name)
        text = name if declared.type_name.startswith(".google.") else f"[{name}](#{anchor(name)})"
    else:
        text = FieldType.Type.Name(declared.type).removeprefix("TYPE_").lower()
    repeated = declared.label == FieldType.LABEL_REPEATED
    return f"repeated {text}" if repeated else f"optional {text}" if declared.proto3_optional else text


def anchor(name: str) -> str:
    return name.lower().replace(".", "")


def messages(proto: Proto) -> list[Message]:
    def of(types, prefix: str, path: tuple[int, ...], tag: int) -> list[Message]:
        found = []
        for i, type_ in enumerate(types):
            if not type_.options.map_entry:
                message = Message(prefix + type_.name, (*path, tag, i), type_)
                found.append(message)
                found += of(type_.nested_type, message.name + ".", message.path, 3)
        return found

    return of(proto.file.message_type, "", (), 4)


def enum_section(proto: Proto, name: str, path: tuple[int, ...], enum: descriptor_pb2.EnumDescriptorProto) -> str:
    rows = [f"| `{value.name}` | {value.number} | {cell(proto.comments.get((*path, 2, i), ''))} |" for i, value in enumerate(enum.value)]
    return f"## {name}\n\n{cell(proto.comments.get(path, ''))}\n\n| Value | Number | Description |\n|---|---:|---|\n" + "\n".join(rows) + "\n"


def message_section(proto: Proto, message: Message) -> str:
    text = f"## {message.name}\n\n{cell(proto.comments.get(message.path, ''))}\n\n"
    rows = [f"| `{declared.name}` | {type_of(declared, message)} | {cell(proto.comments.get((*message.path, 2, i), ''))} |"
            for i, declared in enumerate(message.type.field)]
    if rows:
        text += "| Field | Type | Description |\n|---|---|---|\n" + "\n".join(rows) + "\n\n"
    for i, enum in enumerate(message.type.enum_type):
        text += enum_section(proto, f"{message.name}.{enum.name}", (*message.path, 4, i), enum) + "\n"
    return text


def service_section(proto: Proto, i: int, service: descriptor_pb2.ServiceDescriptorProto) -> str:
    def stream(name: str, streams: bool) -> str:
        name = short(name)
        text = name if name.startswith("google.") else f"[{name}](#{anchor(name)})"
        return f"stream of {text}" if streams else text

    rows = [f"| `{m.name}` | {stream(m.input_type, m.client_streaming)} | {stream(m.output_type, m.server_streaming)} "
            f"| {cell(proto.comments.get((6, i, 2, j), ''))} |" for j, m in enumerate(service.method)]
    return (f"## {service.name}\n\n{cell(proto.comments.get((6, i), ''))}\n\n| Method | Request | Response | Description |\n"
            "|---|---|---|---|\n" + "\n".join(rows) + "\n\n")


def introduction(proto: Proto) -> str:
    """The comment at the top of the file, above `syntax`."""
    return cell(proto.comments.get((12,), ""))


def api_page(proto: Proto, title: str) -> str:
    text = f"# {title}\n\n{introduction(proto)}\n\n"
    text += "".join(service_section(proto, i, service) for i, service in enumerate(proto.file.service))
    text += "".join(message_section(proto, message) for message in messages(proto))
    return text + "".join(enum_section(proto, enum.name, (5, i), enum) for i, enum in enumerate(proto.file.enum_type))


def fields_of(by_name: dict[str, Message], proto: Proto, message: Message, prefix: str) -> list[str]:
    rows = []
    for i, declared in enumerate(message.type.field):
        name = f"{prefix}{declared.name}"
        nested = by_name.get(short(declared.type_name)) if declared.type == FieldType.TYPE_MESSAGE else None
        if nested and declared.label != FieldType.LABEL_REPEATED:
            rows += fields_of(by_name, proto, nested, name + ".")
        else:
            rows.append(f"| `{name}` | {cell(proto.comments.get((*message.path, 2, i), ''))} |")
    return rows


def config_page(proto: Proto, title: str) -> str:
    by_name = {message.name: message for message in messages(proto)}
    text = (f"# {title}\n\nEvery field of the configuration files. A field is also a flag, with dashes for dots and underscores: "
            "`tls.key_file` is `--tls-key-file`; only `groups` has none. "
            "[Configuration](configuration.md) says how to use them.\n\n")
    for name, title in (("FrontendConfig", "kinora-frontend"), ("GroupConfig", "groups"), ("WorkerConfig", "kinora-worker")):
        message = by_name[name]
        text += f"## {title}\n\n{cell(proto.comments.get(message.path, ''))}\n\n| Field of `{name}` | Description |\n|---|---|\n"
        text += "\n".join(fields_of(by_name, proto, message, "")) + "\n\n"
    return text
