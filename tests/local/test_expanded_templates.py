"""The outcome of the SAM transform, which the local cloud keeps for its next start."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from codelab_local import LocalCloud
from codelab_local.template import expanded_templates
from codelab_local.template.expanded_templates import ExpandedTemplate

from tests.local.conftest import APP

TRANSFORM = "AWS::Serverless-2016-10-31"
EXPANDED = '{"Resources": {"Table": {}}}'


def body(**fields: Any) -> str:
    return json.dumps({"Transform": TRANSFORM, "Resources": {}, **fields})


def test_the_same_template_is_expanded_once(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    assert ExpandedTemplate(body(), "us-east-1", folder).read() is None
    ExpandedTemplate(body(), "us-east-1", folder).write(EXPANDED)
    assert ExpandedTemplate(body(), "us-east-1", folder).read() == EXPANDED
    assert ExpandedTemplate(body(Globals={}), "us-east-1", folder).read() is None
    assert ExpandedTemplate(body(), "eu-central-1", folder).read() is None


def test_another_translator_expands_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ExpandedTemplate(body(), "us-east-1", tmp_path).write(EXPANDED)
    monkeypatch.setattr(expanded_templates, "version", lambda package: "9.9")
    assert ExpandedTemplate(body(), "us-east-1", tmp_path).read() is None


@pytest.mark.parametrize(
    "template",
    [
        json.dumps({"Resources": {}}),
        body(Transform=["AWS::LanguageExtensions", TRANSFORM]),
        body(Resources={"One": {"Fn::Transform": {"Name": "AWS::Include", "Parameters": {"Location": "s3://a/b"}}}}),
    ],
)
def test_what_depends_on_more_than_the_template_is_not_kept(tmp_path: Path, template: str) -> None:
    ExpandedTemplate(template, "us-east-1", tmp_path).write(EXPANDED)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_used_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        kept = ExpandedTemplate(body(), "us-east-1", folder)
        kept.write(EXPANDED)
        assert kept.read() is None


def test_a_damaged_file_counts_as_none(tmp_path: Path) -> None:
    kept = ExpandedTemplate(body(), "us-east-1", tmp_path)
    for damaged in (EXPANDED[:-5], "[]", "{}", '{"Resources": "none"}'):
        kept.write(damaged)
        assert kept.read() is None


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for number in range(30):
        ExpandedTemplate(body(Description=str(number)), "us-east-1", tmp_path).write(EXPANDED)
    assert len(list(tmp_path.iterdir())) == 20
    assert ExpandedTemplate(body(Description="29"), "us-east-1", tmp_path).read() == EXPANDED
    for path in tmp_path.iterdir():
        os.utime(path, (4e9, 4e9))  # as if the clock had been set back since
    ExpandedTemplate(body(Description="30"), "us-east-1", tmp_path).write(EXPANDED)
    assert len(list(tmp_path.iterdir())) == 20
    assert ExpandedTemplate(body(Description="30"), "us-east-1", tmp_path).read() == EXPANDED


@pytest.mark.deep  # the first test has the rule
def test_a_later_start_deploys_the_same_from_it(cloud: LocalCloud) -> None:
    """`cloud` has kept what it was made of, or was made of what another kept."""
    with LocalCloud(APP / "template.yaml") as later:
        stack = later.client("cloudformation")
        deployed = stack.get_template(StackName="codelab-local", TemplateStage="Original")["TemplateBody"]
        assert "Transform" not in deployed, "it was expanded before"
        first = cloud.client("cloudformation").list_stack_resources(StackName="codelab-local")
        again = stack.list_stack_resources(StackName="codelab-local")
        names = [
            {resource["LogicalResourceId"]: resource["ResourceType"] for resource in stack["StackResourceSummaries"]}
            for stack in (first, again)
        ]
        assert names[0] == names[1]
        assert later.functions().keys() == cloud.functions().keys()
        assert later.invoke("command", {"a": 1}) == {"a": 1}
