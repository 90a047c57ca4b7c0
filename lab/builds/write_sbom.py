"""`python write_sbom.py FILE`: write a CycloneDX file from a list of packages on stdin. sbom.py runs this program."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL


def main() -> None:
    text = JsonV1Dot6(bill(json.load(sys.stdin))).output_as_string(indent=2)
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if error is not None:
        sys.exit(f"the file does not match CycloneDX's schema: {error}")
    Path(sys.argv[1]).write_text(text + "\n", encoding="utf-8")


def bill(found: dict[str, Any]) -> Bom:
    bom = Bom()
    bom.metadata.component = Component(
        name=found["name"],
        version=found["version"],
        type=ComponentType.APPLICATION,
        licenses=[LicenseFactory().make_from_string("Apache-2.0")],
    )
    bom.components.update(component(*package) for package in found["packages"])
    bom.register_dependency(bom.metadata.component, bom.components)
    return bom


def component(kind: str, name: str, version: str, licence: str) -> Component:
    url = PackageURL(kind, name=name, version=version)
    if kind == "deb":
        url = PackageURL(kind, "debian", name, version, {"distro": "debian-12"})
    return Component(
        name=name,
        version=version,
        bom_ref=str(url),
        purl=url,
        licenses=[LicenseFactory().make_from_string(licence)] if licence else [],
    )


if __name__ == "__main__":
    main()
