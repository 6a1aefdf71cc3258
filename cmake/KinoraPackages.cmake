# Debian packages: kinora-frontend, kinora-postgresql (its module), kinora-gateway, kinora-worker (kinora-render and kinora-decode too) and
# kinora-client.
# Beside what cmake --install brings they have systemd units, a configuration in /etc/kinora and what Debian's policy asks for
# (deploy/debian; PackageFiles.cmake finishes them). Their dependencies are those of the libraries that the programs link.
set(debian ${CMAKE_SOURCE_DIR}/deploy/debian)

# Of packages alone: they say /usr and /etc.
foreach(component frontend worker)
  install(FILES ${debian}/${component}.textproto DESTINATION /etc/kinora COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()
install(FILES ${debian}/gateway.env DESTINATION /etc/kinora COMPONENT gateway EXCLUDE_FROM_ALL)
install(FILES ${debian}/kinora-frontend.service DESTINATION /usr/lib/systemd/system COMPONENT frontend EXCLUDE_FROM_ALL)
install(FILES ${debian}/kinora-gateway.service DESTINATION /usr/lib/systemd/system COMPONENT gateway EXCLUDE_FROM_ALL)
install(FILES ${debian}/kinora-worker@.service DESTINATION /usr/lib/systemd/system COMPONENT worker EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME kinora)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_VENDOR "The Kinora authors")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1~deb12)  # its libraries
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The Kinora authors <kinora@users.noreply.github.com>" CACHE STRING
    "Who the packages say maintains them: NAME <ADDRESS>")
set(CPACK_DEBIAN_PACKAGE_SECTION video)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL frontend postgresql gateway worker client)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_STRIP_FILES ON)
set(CPACK_SET_DESTDIR ON)  # of /etc
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/PackageFiles.cmake)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR})
set(CPACK_OUTPUT_FILE_PREFIX ${CMAKE_BINARY_DIR}/packages)
set(CPACK_KINORA_SOURCE ${CMAKE_SOURCE_DIR})

set(about "
Kinora serves the LTX-2 audio-video models: text goes in over gRPC or HTTP,
video with sound comes out as a file. Jobs survive crashes of the server and
its workers.

")
set(CPACK_DEBIAN_FRONTEND_PACKAGE_NAME kinora-frontend)
set(CPACK_DEBIAN_FRONTEND_DESCRIPTION "API, queue and clips of a video server${about}\
This package has the frontend, which needs no model and no GPU, as a service.")
set(CPACK_DEBIAN_FRONTEND_PACKAGE_RECOMMENDS "kinora-client, ca-certificates")
set(CPACK_DEBIAN_FRONTEND_PACKAGE_SUGGESTS "kinora-gateway, kinora-postgresql, kinora-worker")
set(CPACK_DEBIAN_POSTGRESQL_PACKAGE_NAME kinora-postgresql)
set(CPACK_DEBIAN_POSTGRESQL_DESCRIPTION "store of a video server in PostgreSQL${about}\
This package has the module that the frontend opens if its jobs are stored in
a PostgreSQL database.")
set(CPACK_DEBIAN_POSTGRESQL_PACKAGE_DEPENDS "kinora-frontend (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(CPACK_DEBIAN_GATEWAY_PACKAGE_NAME kinora-gateway)
set(CPACK_DEBIAN_GATEWAY_DESCRIPTION "HTTP API and web page of a video server${about}\
This package has the gateway, which serves /v1/videos over HTTP and calls one
or several frontends, as a service.")
set(CPACK_DEBIAN_GATEWAY_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_DEBIAN_WORKER_PACKAGE_NAME kinora-worker)
set(CPACK_DEBIAN_WORKER_DESCRIPTION "worker that computes the clips of a video server${about}\
This package has the worker as a service, a process for each rank, and
kinora-render, which makes one clip without a server.")
set(CPACK_DEBIAN_CLIENT_PACKAGE_NAME kinora-client)
set(CPACK_DEBIAN_CLIENT_DESCRIPTION "command line client of a video server${about}\
This package has the client and the protobuf files of the API.")
foreach(component frontend gateway worker)
  string(TOUPPER ${component} COMPONENT)
  file(GLOB scripts ${debian}/${component}/*)
  set(CPACK_DEBIAN_${COMPONENT}_PACKAGE_CONTROL_EXTRA ${scripts})
endforeach()
include(CPack)
