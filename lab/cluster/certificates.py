"""Create the cluster's certificate authority, and the certificates that it signs.

All keys are ECDSA P-256. Each start of the lab creates new certificates, which are valid for a year.

The library trustme cannot be used for three reasons. It makes only server certificates, and cannot set a client's name
such as system:kube-scheduler. The certificates of trustme name an organization, which Kubernetes would read as a group.
They also mark an empty list of alternative names as critical, and Go refuses such certificates.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=365)


@dataclass(frozen=True)
class Pair:
    """The paths of a certificate and its private key."""

    certificate: Path
    key: Path


class Authority:
    """An authority that writes client and server certificates into one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("distrain-lab")
        folder.mkdir(parents=True, mode=0o700)
        self.pair = self._write("ca", self._key, self._builder(self._name, self._key, ca=True))

    def client(self, file: str, user: str, group: str | None = None) -> Pair:
        """Make a client certificate for this user and group."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_name(user, group), key).add_extension(_usage(ExtendedKeyUsageOID.CLIENT_AUTH), False)
        return self._write(file, key, builder)

    def server(self, file: str, names: Sequence[str], addresses: Sequence[str]) -> Pair:
        """Make a certificate for a server that clients reach under these host names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        hosts: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        hosts += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        builder = self._builder(_name(names[0]), key).add_extension(x509.SubjectAlternativeName(hosts), False)
        return self._write(file, key, builder.add_extension(_usage(ExtendedKeyUsageOID.SERVER_AUTH), False))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, ca: bool = False
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + _LIFETIME)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )

    def _write(self, file: str, key: ec.EllipticCurvePrivateKey, builder: x509.CertificateBuilder) -> Pair:
        certificate = builder.sign(self._key, hashes.SHA256())
        pair = Pair(self._folder / f"{file}.crt", write_key(self._folder / f"{file}.key", key))
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return pair


def write_key(path: Path, key: ec.EllipticCurvePrivateKey | None = None) -> Path:
    """Write a private key that only its owner can read. If `key` is missing, create a new private key."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    return path


def _name(common_name: str, organization: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _usage(purpose: x509.ObjectIdentifier) -> x509.ExtendedKeyUsage:
    return x509.ExtendedKeyUsage([purpose])
