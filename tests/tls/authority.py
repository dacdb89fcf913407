"""Certificates of a moment."""
import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID


class Authority:
    """Vouches for others. What it makes stands in a folder as NAME.pem and NAME.key."""

    def __init__(self, folder, name="authority"):
        self.folder = folder
        self._serial = []
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._sign(self._name, self._key, [], is_authority=True)
        self.file = self._write(name, self.certificate)

    def _sign(self, subject, key, alternatives, is_authority=False, days=30):
        now = datetime.datetime.now(datetime.timezone.utc)
        built = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name) \
            .public_key(key.public_key()).serial_number(x509.random_serial_number()) \
            .not_valid_before(now - datetime.timedelta(days=1)) \
            .not_valid_after(now + datetime.timedelta(days=days)) \
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        if alternatives:
            built = built.add_extension(x509.SubjectAlternativeName(alternatives), False)
        return built.sign(self._key, hashes.SHA256())

    def _write(self, name, certificate, key=None):
        encoding = serialization.Encoding.PEM
        path = self.folder / f"{name}.pem"
        path.write_bytes(certificate.public_bytes(encoding))
        if key:
            (self.folder / f"{name}.key").write_bytes(key.private_bytes(
                encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        return path

    def make(self, name, address=None, days=30, bits=None, organization="Tests", hosts=()):
        """The files of certificate and key of NAME, reached at an address."""
        key = rsa.generate_private_key(65537, bits) if bits \
            else ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
                             x509.NameAttribute(NameOID.COMMON_NAME, name)])
        alternatives = [x509.IPAddress(ipaddress.ip_address(address))] if address else []
        alternatives += [x509.DNSName(host) for host in hosts]
        certificate = self._sign(subject, key, alternatives, days=days)
        return self._write(name, certificate, key), self.folder / f"{name}.key"
