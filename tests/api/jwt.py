"""Tokens for tests, made by the openssl program: not by the code that is tested."""

import base64
import hashlib
import hmac
import json
import pathlib
import subprocess
import time


def openssl(*words, data=None):
    return subprocess.run(["openssl", *words], input=data, check=True, capture_output=True).stdout


def b64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def integer(der, at):
    assert der[at] == 2
    n = der[at + 1]
    return int.from_bytes(der[at + 2:at + 2 + n], "big"), at + 2 + n


class Key:
    """A key pair: alg is RS256, ES256 or EdDSA."""

    def __init__(self, directory, alg, name="key", bits=2048):
        self.alg, self.path = alg, pathlib.Path(directory, f"{name}-{alg}.pem")
        words = {"RS256": ["-algorithm", "RSA", "-pkeyopt", f"rsa_keygen_bits:{bits}"],
                 "ES256": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
                 "ES384": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"],
                 "EdDSA": ["-algorithm", "ED25519"]}[alg]
        openssl("genpkey", *words, "-out", str(self.path))
        self.public = openssl("pkey", "-in", str(self.path), "-pubout").decode()

    def sign(self, text):
        if self.alg == "EdDSA":
            message = self.path.with_suffix(".msg")
            message.write_bytes(text)
            return openssl("pkeyutl", "-sign", "-rawin", "-inkey", str(self.path), "-in", str(message))
        der = openssl("dgst", "-sha256", "-sign", str(self.path), data=text)
        if self.alg == "RS256":
            return der
        r, at = integer(der, 2)
        s, _ = integer(der, at)
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    def token(self, claims=None, header=None, **more):
        claims = {"exp": int(time.time()) + 600, **more} if claims is None else claims
        text = ".".join(b64url(json.dumps(x).encode()) for x in ({"alg": self.alg, "typ": "JWT", **(header or {})}, claims))
        return text + "." + b64url(self.sign(text.encode()))

    def jwk(self, kid=None):
        der = openssl("pkey", "-pubin", "-outform", "DER", data=self.public.encode())
        if self.alg == "EdDSA":
            k = {"kty": "OKP", "crv": "Ed25519", "x": b64url(der[-32:])}
        elif self.alg == "ES256":
            k = {"kty": "EC", "crv": "P-256", "x": b64url(der[-64:-32]), "y": b64url(der[-32:])}
        else:
            n = openssl("rsa", "-pubin", "-noout", "-modulus", data=self.public.encode()).decode().split("=")[1]
            k = {"kty": "RSA", "n": b64url(bytes.fromhex(n.strip())), "e": "AQAB"}
        return {**k, "use": "sig", **({"kid": kid} if kid else {})}


def hmac_token(secret, claims, alg="HS256"):
    """What an attacker makes who has the public key: signed with it, as if it were a secret."""
    text = ".".join(b64url(json.dumps(x).encode()) for x in ({"alg": alg, "typ": "JWT"}, claims))
    return text + "." + b64url(hmac.new(secret, text.encode(), hashlib.sha256).digest())


def unsigned_token(claims, alg="none", tail=""):
    return ".".join(b64url(json.dumps(x).encode()) for x in ({"alg": alg}, claims)) + "." + tail
