"""The environment is read once, and a bad value is named."""

import pytest
from codelab.config import ConfigurationError, read_settings


def test_defaults_hold_and_empty_variables_count_as_unset():
    found = read_settings({"MAX_STEPS": "", "TABLE_NAME": "t"})
    assert (found.max_steps, found.table_name) == (50, "t")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAX_STEPS", "many"),
        ("MAX_STEPS", "0"),
        ("HITL_ENABLED", "perhaps"),
        ("AUTH_MODE", "trust"),
        ("LOG_LEVEL", "LOUD"),
    ],
)
def test_a_bad_value_is_named_with_the_cure(name, value):
    with pytest.raises(ConfigurationError, match=f"{name}={value}: .*correct {name}"):
        read_settings({name: value})


def test_no_authentication_exists_in_the_local_cloud_only():
    with pytest.raises(ConfigurationError, match="local cloud only"):
        read_settings({"AUTH_MODE": "none"})
    assert read_settings({"AUTH_MODE": "none", "CODELAB_LOCAL": "1"}).auth_mode == "none"
