"""Just enough of the CQL protocol to send what no driver would."""
import socket
import struct

STARTUP, OPTIONS, QUERY, PREPARE, EXECUTE, REGISTER, BATCH = 1, 5, 7, 9, 10, 11, 13
ERROR, READY, SUPPORTED, RESULT = 0, 2, 6, 8


def string(text):
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def frame(opcode, body=b"", version=4, flags=0, stream=1, length=None):
    length = len(body) if length is None else length
    return struct.pack(">BBhBI", version, flags, stream, opcode, length) + body


def startup(version=4, **options):
    pairs = {"CQL_VERSION": "3.0.0", **options}
    body = struct.pack(">H", len(pairs))
    body += b"".join(string(key) + string(value) for key, value in pairs.items())
    return frame(STARTUP, body, version)


def query(text, version=4):
    data = text.encode()
    flags = struct.pack(">I", 0) if 5 <= version else b"\0"
    return frame(QUERY, struct.pack(">I", len(data)) + data + struct.pack(">H", 1) + flags, version)


class Client:
    """A bare connection."""

    def __init__(self, node, seconds=10, path=None):
        if path:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(seconds)
            self.socket.connect(str(path))
        else:
            self.socket = socket.create_connection((node.address, node.port), timeout=seconds)

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def take(self, count):
        data = b""
        while len(data) < count:
            try:
                part = self.socket.recv(count - len(data))
            except ConnectionResetError:
                return None
            if not part:
                return None
            data += part
        return data

    def answer(self):
        """(opcode, body) of the next frame, or None at the end of the connection."""
        header = self.take(9)
        if header is None:
            return None
        _, _, _, opcode, length = struct.unpack(">BBhBI", header)
        body = self.take(length)
        return None if body is None else (opcode, body)

    def error(self):
        """The text of the error that must come next; None if the connection ends without one."""
        answer = self.answer()
        if answer is None:
            return None
        opcode, body = answer
        assert opcode == ERROR, answer
        (length,) = struct.unpack(">H", body[4:6])
        return body[6:6 + length].decode()

    def is_closed(self):
        """Whether the server ends the connection, whatever it says before."""
        while self.answer() is not None:
            pass
        return True

    def started(self, version=4, **options):
        self.send(startup(version, **options))
        assert self.answer() == (READY, b"")
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
