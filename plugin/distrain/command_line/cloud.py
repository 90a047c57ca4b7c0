"""Define the arguments of `cluster`, except the flags for values."""

from __future__ import annotations

from distrain.command_line.arguments import Parser, named

# For each name of a cloud, the name of its managed Kubernetes.
CLOUDS = {"aws": "eks", "gcp": "gke", "google": "gke", "azure": "aks"}


def add(parser: Parser) -> None:
    words = "the cloud; if unset, the cloud of --instance or of the workers' nodeSelector, otherwise eks"
    parser.add_argument("--provider", type=_provider, choices=["eks", "gke", "aks"], help=words)
    words = "type of the GPU nodes, as in p5.48xlarge; if unset, one that holds the workers"
    parser.add_argument("--instance", type=named, metavar="TYPE", help=words)
    words = "name of the cluster, distrain if unset"
    parser.add_argument("--name", dest="cluster_name", type=named, metavar="NAME", default="distrain", help=words)
    parser.add_argument("--region", type=named, metavar="REGION", help="us-west-2, us-central1 or eastus if unset")
    words = "zone of the GPU nodes; eks takes two, as in us-west-2a,us-west-2b, and puts them into the first"
    parser.add_argument("--zone", type=named, metavar="ZONE", help=words)
    parser.add_argument("--efa", action="store_true", help="eks: nodes with EFA, also if the values ask for none")
    parser.add_argument("--placement-group", action="store_true", help="put the GPU nodes near each other")
    words = "your table of prices, a line `TYPE: PRICE` for an hour of each type; none is built in"
    parser.add_argument("--prices", type=named, metavar="FILE", help=words)
    parser.add_argument("-o", "--output", type=named, metavar="FILE", help="write this file, not to stdout")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")


def _provider(word: str) -> str:
    return CLOUDS.get(word.lower(), word.lower())
