import pytest

from controlplane.api.durations import format_duration
from controlplane.api.go_structs import DecodeError, parse_duration
from controlplane.scheduler.config.expand import ProfileError
from controlplane.scheduler.config.load import load
from controlplane.scheduler.config.validate import ValidationError
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.plugins.registry import build_framework
from controlplane.scheduler.scheduler import Scheduler
from controlplane.scheduler.state.listers import Listers

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_an_empty_document_is_the_default_scheduler():
    config = load(HEAD)
    (profile,) = config.profiles
    assert profile.scheduler_name == "default-scheduler"
    framework = build_framework(profile, Handle())
    assert framework.weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }


def test_the_default_profile_is_what_an_empty_document_gives():
    expanded = build_framework(load(HEAD).profiles[0], Handle())
    default = next(iter(Scheduler(Listers()).frameworks.values()))
    for point in ("pre_enqueue", "pre_filter", "filter", "post_filter", "score", "bind"):
        names = [plugin.name for plugin in getattr(expanded.plugins, point)]
        assert names == [plugin.name for plugin in getattr(default.plugins, point)]
    assert expanded.weights == default.weights


def test_profiles_and_arguments_reach_the_plugins():
    text = (
        HEAD
        + """
podInitialBackoffSeconds: 2
profiles:
- schedulerName: packed
  percentageOfNodesToScore: 7
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources: [{name: cpu, weight: 3}]
  plugins:
    score:
      disabled: [{name: ImageLocality}]
      enabled: [{name: NodeResourcesFit, weight: 9}]
"""
    )
    config = load(text)
    scheduler = Scheduler(Listers(), config=config)
    framework = scheduler.frameworks["packed"]
    assert framework.weights["NodeResourcesFit"] == 9
    assert "ImageLocality" not in framework.weights
    fit = next(p for p in framework.all_plugins if p.name == "NodeResourcesFit")
    assert (fit.args.strategy, fit.args.resources[0].weight) == ("MostAllocated", 3)
    assert framework.percentage_of_nodes_to_score == 7
    assert scheduler.queue.options.initial_backoff == 2_000_000_000


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (HEAD + "profile: []\n", DecodeError, 'unknown field "profile"'),
        (HEAD + "parallelism: x\n", DecodeError, "cannot unmarshal string into Go struct field"),
        ("kind: Pod\napiVersion: v1\n", DecodeError, 'no kind "Pod" is registered'),
        (HEAD + "parallelism: 0\n", ValidationError, "should be an integer value greater than"),
        (
            HEAD + "profiles: [{schedulerName: a}, {schedulerName: a}]\n",
            ValidationError,
            "Duplicate value",
        ),
        (
            HEAD + "profiles: [{plugins: {filter: {enabled: [{name: Nope}]}}}]\n",
            ProfileError,
            'FilterPlugin "Nope" does not exist',
        ),
        (
            HEAD + "profiles: [{plugins: {bind: {disabled: [{name: '*'}]}}}]\n",
            ProfileError,
            "at least one bind plugin is needed",
        ),
    ],
)
def test_a_bad_document_says_what_is_wrong(text, error, message):
    with pytest.raises(error, match=message):
        load(text)


def test_an_ignored_resource_of_an_extender_is_not_checked():
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [
            {
                "urlPrefix": "http://x",
                "managedResources": [{"name": "example.com/a", "ignoredByScheduler": True}],
            }
        ],
    }
    args = load(document).profiles[0].args["NodeResourcesFit"]
    assert args.ignored_resources == ("example.com/a",)


@pytest.mark.parametrize(
    ("text", "nanoseconds", "printed"),
    [
        ("15s", 15_000_000_000, "15s"),
        ("1.5h", 5_400_000_000_000, "1h30m0s"),
        ("600s", 600_000_000_000, "10m0s"),
        ("1500ms", 1_500_000_000, "1.5s"),
        ("-2us", -2_000, "-2µs"),
        ("0", 0, "0s"),
    ],
)
def test_durations_read_and_print_as_in_go(text, nanoseconds, printed):
    assert parse_duration(text) == nanoseconds
    assert format_duration(nanoseconds) == printed


@pytest.mark.parametrize("text", ["", "5", "s", "1x", "1s2"])
def test_a_duration_without_unit_is_refused(text):
    with pytest.raises(DecodeError, match="duration"):
        parse_duration(text)
