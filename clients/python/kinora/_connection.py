"""Where the server is, and how a call shows who it comes from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import grpc

PORT = 8470
# A server that comes back is seen soon; one that vanished without a word within half a minute, since its watches are
# never silent for more than 10 s.
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
    """server: host, host:port or unix:PATH; absent: $KINORA_SERVER, then 127.0.0.1:8470.

    tls: with the system's authorities; ca_file: with those of this PEM file. certificate_file and key_file: for a server
    that asks its clients for a certificate. token or token_file: the bearer token; absent: the file $KINORA_TOKEN_FILE, if
    it is set.
    """

    server: Optional[str] = None
    token: Optional[str] = None
    token_file: Optional[str] = None
    tls: bool = False
    ca_file: Optional[str] = None
    certificate_file: Optional[str] = None
    key_file: Optional[str] = None

    @property
    def target(self) -> str:
        server = self.server or os.environ.get("KINORA_SERVER") or f"127.0.0.1:{PORT}"
        has_port = server.startswith(("unix:", "dns:", "ipv4:", "ipv6:")) or ":" in server.rpartition("]")[2]
        return server if has_port else f"{server}:{PORT}"

    def credentials(self) -> Optional[grpc.ChannelCredentials]:
        """None: without TLS."""
        if not (self.tls or self.ca_file or self.certificate_file):
            return None
        read = [Path(name).read_bytes() if name else None for name in (self.ca_file, self.key_file, self.certificate_file)]
        return grpc.ssl_channel_credentials(*read)

    def metadata(self) -> list[tuple[str, str]]:
        token, name = self.token, self.token_file or os.environ.get("KINORA_TOKEN_FILE")
        if token is None and name:
            token = Path(name).read_text().strip()
            if not token:
                raise ValueError(f"token file {name} is empty")
        return [("authorization", f"Bearer {token}")] if token else []
