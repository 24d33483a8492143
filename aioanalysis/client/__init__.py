"""The async client of the service: what the command line is built on, and usable from a notebook."""

from aioanalysis.client.client import AnalysisClient, ApiProblem, Downloaded, JobJson, open_client

__all__ = ["AnalysisClient", "ApiProblem", "Downloaded", "JobJson", "open_client"]
