"""Delta on Spark on S3: the jars of S3A, and a log store that is safe beside other writers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.support.java_jars import compile_jar
from tests.support.maven import Artifact, ensure_jars
from tests.support.object_servers import S3_ENVIRON

# The version of the Hadoop client in PySpark 4.2.0, and of the SDK that its S3A names.
_HADOOP: Final = "3.5.0"
_SDK: Final = "2.35.4"
_SOURCE: Final = Path(__file__).with_name("ConditionalLogStore.java")
# In place of the SDK's bundle, which has 600 MB.
_SDK_MODULES: Final = (
    "annotations apache-client arns auth aws-core aws-query-protocol aws-xml-protocol checksums "
    "checksums-spi crt-core endpoints-spi http-auth http-auth-aws http-auth-aws-eventstream "
    "http-auth-spi http-client-spi identity-spi json-utils metrics-spi netty-nio-client profiles "
    "protocol-core regions retries retries-spi s3 s3-transfer-manager sdk-core sts "
    "third-party-jackson-core utils utils-lite"
)
_ARTIFACTS: Final = (
    Artifact("org.apache.hadoop", "hadoop-aws", _HADOOP),
    Artifact("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
    Artifact("org.reactivestreams", "reactive-streams", "1.0.4"),
    Artifact("software.amazon.eventstream", "eventstream", "1.0.1"),
    *(Artifact("software.amazon.awssdk", name, _SDK) for name in _SDK_MODULES.split()),
)


def find_s3_jars(delta_jars: Sequence[Path]) -> list[Path]:
    """Return the jars of S3A and of the log store.

    Raises:
        UnreachableError: they cannot be fetched, or there is no Java compiler.
    """
    found = ensure_jars(f"hadoop-aws-{_HADOOP}", _ARTIFACTS)
    return [*found, compile_jar(_SOURCE, delta_jars)]


def s3_settings(endpoint: str) -> Mapping[str, str]:
    """Return the settings of a session that opens ``s3a`` addresses on one server."""
    return {
        "spark.delta.logStore.s3a.impl": "deltactl.tests.ConditionalLogStore",
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": S3_ENVIRON["AWS_REGION"],
        "spark.hadoop.fs.s3a.access.key": S3_ENVIRON["AWS_ACCESS_KEY_ID"],
        "spark.hadoop.fs.s3a.secret.key": S3_ENVIRON["AWS_SECRET_ACCESS_KEY"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }
