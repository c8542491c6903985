# Sandglass with everything that its boxes need, on one port. See docs/install.md, "In a container", for the flags it needs.
#   docker build -t sandglass .            and docker-compose.yaml beside this file
# BASE: any Debian 12. DEPS: what tools/deps.sh installs; `build` leaves out the programs for boxes (small, for trials).
ARG BASE=debian:12
FROM ${BASE}
ARG DEPS=

COPY . /src
RUN cd /src && tools/deps.sh ${DEPS} && make -s -j"$(nproc)" \
    && install -D -m 755 build/sandglass build/sandglass-init -t /usr/local/lib/sandglass \
    && ln -s ../lib/sandglass/sandglass /usr/local/bin/sandglass \
    && install -m 755 tools/docker/entrypoint.sh / \
    && tee /etc/sandglass.build /usr/sandglass.build </proc/sys/kernel/random/uuid \
    && rm -rf /src /var/lib/apt/lists/*

ENV container=docker
EXPOSE 8080
ENTRYPOINT ["/entrypoint.sh"]

# Boxes are overlays over /usr with the owners of files mapped, and neither can lie on the container's own overlay. Docker
# fills a new volume with what the image has there, so /usr of the volume is /usr of the image. Last, because each step
# behind it would copy that once more. Compose keeps the volume when the container is made anew, also from a newer image:
# the two marks tell /entrypoint.sh.
VOLUME ["/usr", "/var/lib/sandglass"]
