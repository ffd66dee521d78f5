"""Kafka's jars, fetched once by Maven into a cache, and the class archive that halves its start.

They lie in `kafka-<version>` of the cache. A file lock keeps parallel runs from fetching twice;
what is half done is never taken for done.
"""

import re
import shutil
import subprocess
from pathlib import Path

from deploy.local.cache import cache_folder, locked
from deploy.local.processes import LocalError

VERSION = "4.3.1"
JAVA_MIN = 17
JAVA_INSTALL = "apt-get install openjdk-17-jre-headless"
FETCH_SECONDS = 600

POM = f"""\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>muster</groupId><artifactId>kafka</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId>
      <version>2.25.4</version>
    </dependency>
  </dependencies>
  <build><plugins><plugin>
    <groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId>
    <version>3.8.1</version>
  </plugin></plugins></build>
</project>
"""

LOGGING = """\
status = error
shutdownHook = disable
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %-5p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


def fetched_jars() -> Path:
    """The folder with `lib/` and `log4j2.properties`, fetched now unless it is there.

    Raises:
        LocalError: Java or Maven is missing, or Maven failed.
    """
    cache = cache_folder() / f"kafka-{VERSION}"
    require_java()
    with locked(cache.parent / "kafka.lock"):
        if not (cache / "lib").is_dir():
            _fetch(cache)
    return cache


def require_java() -> None:
    """Check that a Java 17 or newer is there.

    Raises:
        LocalError: it is not.
    """
    if shutil.which("java") is None:
        raise LocalError(f"Kafka needs Java {JAVA_MIN} or newer: {JAVA_INSTALL}")
    report = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', report.stderr)
    if version and int(version[1]) < JAVA_MIN:
        raise LocalError(f"Kafka needs Java {JAVA_MIN} or newer, not {version[1]}: {JAVA_INSTALL}")


def _fetch(cache: Path) -> None:
    if shutil.which("mvn") is None:
        raise LocalError("Maven is needed once, to fetch Kafka: apt-get install maven")
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "pom.xml").write_text(POM)
    (cache / "log4j2.properties").write_text(LOGGING)
    partial = cache / "lib.partial"
    shutil.rmtree(partial, ignore_errors=True)
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
    done = subprocess.run(
        ["mvn", "-q", "-B", "-f", cache / "pom.xml", *goal],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=FETCH_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise LocalError(f"Maven could not fetch Kafka {VERSION}:\n{done.stdout[-2000:]}")
    partial.rename(cache / "lib")
