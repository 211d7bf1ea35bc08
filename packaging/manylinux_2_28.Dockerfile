# Builds the wheel for glibc 2.28. UNVERIFIED: this recipe has never run.
#
#   docker build -f packaging/manylinux_2_28.Dockerfile --output build/wheel/dist .
#
# packaging/static-libraries takes its sources from Debian. This recipe takes the archives from vcpkg, whose triplets link
# statically. The names of its ZeroMQ targets differ, and auditwheel adds the OpenMP runtime.
FROM quay.io/pypa/manylinux_2_28_x86_64 AS build
RUN dnf install -y gcc-toolset-12 ninja-build nasm autoconf automake libtool perl-IPC-Cmd zip unzip tar
ENV PATH=/opt/rh/gcc-toolset-12/root/usr/bin:$PATH
RUN pipx install 'cmake<4' && git clone https://github.com/microsoft/vcpkg /vcpkg && /vcpkg/bootstrap-vcpkg.sh -disableMetrics
RUN printf '%s\n' 'set(VCPKG_TARGET_ARCHITECTURE x64)' 'set(VCPKG_CRT_LINKAGE dynamic)' 'set(VCPKG_LIBRARY_LINKAGE static)' \
  'set(VCPKG_CMAKE_SYSTEM_NAME Linux)' 'set(VCPKG_BUILD_TYPE release)' 'set(VCPKG_C_FLAGS "-fPIC -fvisibility=hidden")' \
  'set(VCPKG_CXX_FLAGS "-fPIC -fvisibility=hidden")' >/vcpkg/triplets/wheel.cmake
RUN /vcpkg/vcpkg install --triplet wheel 'zeromq[sodium]' cppzmq capnproto 'curl[core,openssl]' openssl zlib zstd isal \
  simdjson tomlplusplus xxhash eigen3 cli11 nlohmann-json
COPY . /downpour
WORKDIR /downpour
RUN sed -i 's/dp_archive(libzmq /dp_archive(libzmq-static /' cmake/archives.cmake && \
  sed -i 's/PRIVATE_DEPS cppzmq)/PRIVATE_DEPS cppzmq-static)/' shared/transport/CMakeLists.txt
RUN cmake --preset wheel -DDP_ARCHIVES=/vcpkg/installed/wheel -DVCPKG_TARGET_TRIPLET=wheel \
  -DCMAKE_TOOLCHAIN_FILE=/vcpkg/scripts/buildsystems/vcpkg.cmake && ninja -C build/wheel/cmake downpour_program
RUN stage=build/wheel/stage && mkdir -p $stage/bin $stage/lib $stage/licenses && \
  strip -o $stage/bin/downpour build/wheel/cmake/package/bin/downpour && \
  strip -o $stage/lib/libdownpour.so build/wheel/cmake/package/lib/libdownpour.so && \
  for file in /vcpkg/installed/wheel/share/*/copyright; do \
    cp "$file" "$stage/licenses/$(basename "$(dirname "$file")").txt"; done
RUN cd python/build_backend && python3.11 -c \
  'import wheel_backend as w; w.TAG = "py3-none-linux_x86_64"; print(w.pack("/tmp"))' && \
  auditwheel repair --plat manylinux_2_28_x86_64 -w /dist /tmp/*.whl
FROM scratch
COPY --from=build /dist/ /
