#!/usr/bin/env python3
"""An S3 server for tests: moto, which checks signatures and policies, behind a proxy that makes what a test asks for fail.

Prints one line of JSON to standard error once both listen on 127.0.0.1: {"moto": PORT, "proxy": PORT,
"keys": {"id", "secret"}, "denied": {"id", "secret"}}. "keys" may do everything, "denied" may only read. Ends with the
process that has started it. moto does not know presigned links where it checks signatures; the proxy checks them itself,
by botocore, and asks moto with keys.

The proxy has pages of its own:
  POST /-/faults    a JSON list of faults, which replace those before:
                    {"match": a regular expression for "METHOD PATH?QUERY", with " if-none-match" behind it if the request
                     has that field, "kind": …, "times": how often (default 1), "status", "headers", "body": of a
                     reply}
                    kinds: reply   answer so, without asking the server
                           lost    ask the server, then close the connection without an answer
                           replace ask the server, then answer so
                           refuse  close the connection without asking
                           cut     send half of the server's answer, then close
                           hold    ask the server and answer after "seconds"
  GET /-/requests   a JSON list of all that was asked, as "METHOD PATH?QUERY"
"""
import datetime, http.client, http.server, json, logging, os, re, sys, threading, urllib.parse
from pathlib import Path

# Where scripts/install-deps puts moto.
PLACES = [Path(__file__).resolve().parents[3] / "third_party/s3-server", Path("/usr/local/share/kinora/s3-server")]
sys.path[:0] = [str(place) for place in PLACES if place.is_dir()]

import boto3
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from moto.server import ThreadedMotoServer
from moto.core.authorization import ActionAuthenticatorMixin
from moto import settings

EVERYTHING = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
READING = {"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": "*"}]}


class Faults:
    def __init__(self):
        self.lock = threading.Lock()
        self.faults = []
        self.requests = []

    def set(self, faults):
        with self.lock:
            self.faults = [dict(fault, times=fault.get("times", 1)) for fault in faults]

    def take(self, line):
        with self.lock:
            self.requests.append(line)
            for fault in self.faults:
                if fault["times"] > 0 and re.search(fault["match"], line):
                    fault["times"] -= 1
                    return fault
        return None


class Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    faults = Faults()
    moto = 0
    keys = {}

    def log_message(self, *_):
        pass

    def close(self):
        self.close_connection = True
        self.connection.close()

    def answer(self, status, headers, body, cut=False):
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        # The answer to HEAD has the length of the body that it does not have.
        length = dict((name.lower(), value) for name, value in headers).get("content-length")
        self.send_header("Content-Length", length if self.command == "HEAD" and length else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:len(body) // 2] if cut else body)
            self.wfile.flush()
        if cut:
            self.close()

    def why_not(self, query):
        """What is wrong with a presigned link: an error's code, or ""."""
        asked = dict(query)
        signature = asked.pop("X-Amz-Signature")
        credentials = Credentials(self.keys["id"], self.keys["secret"], asked.get("X-Amz-Security-Token"))
        now = datetime.datetime.now(datetime.timezone.utc)
        signed = datetime.datetime.strptime(asked["X-Amz-Date"], "%Y%m%dT%H%M%S%z")
        lifetime = int(asked["X-Amz-Expires"])
        if not 1 <= lifetime <= 604800:
            return "AuthorizationQueryParametersError"
        if now > signed + datetime.timedelta(seconds=lifetime):
            return "ExpiredToken"
        region = asked["X-Amz-Credential"].split("/")[2]
        request = AWSRequest(self.command, f"http://{self.headers['host']}{urllib.parse.urlsplit(self.path).path}",
                             params=asked, headers={"host": self.headers["host"]})
        request.context["timestamp"] = asked["X-Amz-Date"]
        auth = S3SigV4QueryAuth(credentials, "s3", region, expires=lifetime)
        text = auth.string_to_sign(request, auth.canonical_request(request))
        return "" if auth.signature(text, request) == signature else "SignatureDoesNotMatch"

    def with_keys(self):
        """The headers of a presigned request for moto, or None if the answer was sent."""
        query = urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query, keep_blank_values=True)
        why = self.why_not(query)
        if why:
            self.answer(403, [], f"<Error><Code>{why}</Code></Error>".encode())
            return None
        self.path = urllib.parse.urlsplit(self.path).path
        request = AWSRequest(self.command, f"http://{self.headers['host']}{self.path}", headers=dict(self.headers))
        S3SigV4Auth(Credentials(self.keys["id"], self.keys["secret"]), "s3", "eu-central-1").add_auth(request)
        self.overrides = [(name[len("response-"):], value) for name, value in query if name.startswith("response-")]
        return list(request.headers.items())

    def ask_moto(self, body):
        headers, self.overrides = list(self.headers.items()), []
        if "X-Amz-Signature=" in self.path:
            headers = self.with_keys()
            if headers is None:
                return None
        connection = http.client.HTTPConnection("127.0.0.1", self.moto, timeout=60)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers:
            connection.putheader(name, value)
        connection.endheaders(body if body else None)
        reply = connection.getresponse()
        replaced = {name.lower() for name, _ in self.overrides}
        kept = [(name, value) for name, value in reply.getheaders() if name.lower() not in replaced]
        return reply.status, kept + self.overrides, reply.read()

    def own_page(self, body):
        if self.path == "/-/faults":
            self.faults.set(json.loads(body))
            return self.answer(200, [], b"")
        return self.answer(200, [], json.dumps(self.faults.requests).encode())

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path.startswith("/-/"):
            return self.own_page(body)
        condition = " if-none-match" if self.headers.get("if-none-match") else ""
        fault = self.faults.take(f"{self.command} {self.path}{condition}")
        kind = fault["kind"] if fault else ""
        if kind == "refuse":
            return self.close()
        if kind == "reply":
            return self.answer(fault["status"], fault.get("headers", {}).items(), fault.get("body", "").encode())
        asked = self.ask_moto(body)
        if asked is None:
            return None
        status, headers, reply = asked
        if kind == "lost":
            return self.close()
        if kind == "replace":
            return self.answer(fault["status"], fault.get("headers", {}).items(), fault.get("body", "").encode())
        if kind == "hold":
            threading.Event().wait(fault["seconds"])
        self.answer(status, headers, reply, cut=kind == "cut")

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any


def make_user(iam, name, policy):
    iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName="s3", PolicyDocument=json.dumps(policy))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {"id": key["AccessKeyId"], "secret": key["SecretAccessKey"]}


def main():
    if sys.argv[1:] == ["--check"]:  # that everything is installed
        return
    parent = os.getppid()
    os.environ["MOTO_S3_DEFAULT_MAX_KEYS"] = "3"  # of a list's page
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    settings.INITIAL_NO_AUTH_ACTION_COUNT = float("inf")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    Proxy.moto = server.get_host_and_port()[1]
    args = dict(endpoint_url=f"http://127.0.0.1:{Proxy.moto}", region_name="eu-central-1",
                aws_access_key_id="setup", aws_secret_access_key="setup")
    iam = boto3.client("iam", **args)
    keys, denied = make_user(iam, "kinora", EVERYTHING), make_user(iam, "reader", READING)
    s3 = boto3.client("s3", **args)
    for bucket in ("clips", "other.clips"):
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
    ActionAuthenticatorMixin.request_count = 0
    Proxy.keys = keys
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    print(json.dumps({"moto": Proxy.moto, "proxy": proxy.server_port, "keys": keys, "denied": denied}), file=sys.stderr,
          flush=True)
    while os.getppid() == parent:
        threading.Event().wait(1)
    server.stop()


if __name__ == "__main__":
    main()
