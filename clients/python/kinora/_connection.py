"""The address of the server and the credentials of a call."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import grpc

PORT = 8470
# A server that returns is noticed soon, and one that vanishes silently within half a minute, because its watches are never
# silent for more than 10 s.
CHANNEL_OPTIONS = [
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
]


@dataclass(frozen=True)
class Endpoint:
    """The address of a server and the credentials for it.

    server: host, host:port, https://host:port or unix:PATH. Default: $KINORA_SERVER, then 127.0.0.1:8470.
    tls: use TLS with the system's authorities. ca_file: use TLS with the authorities in this PEM file. Default: the file
    $KINORA_TLS_CA, if it is set and the server is neither a Unix socket nor http://.
    certificate_file, key_file: the client's certificate and key, for a server that requires them.
    token, token_file: the bearer token. Default: the file $KINORA_TOKEN_FILE, if it is set.
    """

    server: Optional[str] = None
    token: Optional[str] = None
    token_file: Optional[str] = None
    tls: bool = False
    ca_file: Optional[str] = None
    certificate_file: Optional[str] = None
    key_file: Optional[str] = None

    @property
    def _address(self) -> str:
        return self.server or os.environ.get("KINORA_SERVER") or f"127.0.0.1:{PORT}"

    @property
    def target(self) -> str:
        server = re.sub(r"^https?://([^/]*)/?$", r"\1", self._address)
        has_port = server.startswith(("unix:", "dns:", "ipv4:", "ipv6:")) or ":" in server.rpartition("]")[2]
        return server if has_port else f"{server}:{PORT}"

    def credentials(self) -> Optional[grpc.ChannelCredentials]:
        """None: without TLS."""
        plain = self._address.startswith(("unix", "http://"))
        from_environment = None if plain else os.environ.get("KINORA_TLS_CA")
        ca_file = self.ca_file or from_environment
        if not (self.tls or ca_file or self.certificate_file or self._address.startswith("https://")):
            return None
        read = [Path(name).read_bytes() if name else None for name in (ca_file, self.key_file, self.certificate_file)]
        return grpc.ssl_channel_credentials(*read)

    def metadata(self) -> list[tuple[str, str]]:
        token, name = self.token, self.token_file or os.environ.get("KINORA_TOKEN_FILE")
        if token is None and name:
            token = Path(name).read_text(encoding="utf-8-sig").strip()
            if not token:
                raise ValueError(f"token file {name} is empty")
        return [("authorization", f"Bearer {token}")] if token else []
