# cmake --install BUILD [--prefix DIR] [--strip]: the programs, their manual pages and completion, and the API with all
# that it imports, for protoc -I PREFIX/share/kinora/proto. kinora-frontend looks for kinora-worker and kinora-gateway
# beside itself, and for its module of PostgreSQL there or in ../lib/kinora/modules (in a folder above, cpack would add a
# call of ldconfig).
# cpack --config BUILD/CPackConfig.cmake: the same as packages, a component each (KinoraPackages.cmake).
include(GNUInstallDirs)

# The programs of a component, and their manual pages and completion where each shell looks by itself, under /usr and
# /usr/local alike.
function(kinora_install component)
  install(TARGETS ${ARGN} RUNTIME COMPONENT ${component})
  list(REMOVE_ITEM ARGN kinora-decode)  # it has a page of its own
  set(manuals ${CMAKE_BINARY_DIR}/manuals)
  foreach(program ${ARGN})
    install(FILES ${manuals}/man1/${program}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${component})
    install(FILES ${manuals}/bash/${program} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT ${component})
    install(FILES ${manuals}/zsh/_${program} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT ${component})
    install(FILES ${manuals}/fish/${program}.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT ${component})
  endforeach()
endfunction()

kinora_install(frontend kinora-frontend)
kinora_install(gateway kinora-gateway)
kinora_install(worker kinora-worker kinora-render kinora-decode)
kinora_install(client kinora)
install(TARGETS kinora-postgresql LIBRARY DESTINATION lib/kinora/modules COMPONENT postgresql)
install(FILES deploy/debian/kinora-decode.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT worker)
install(FILES proto/kinora/v1/video_generation.proto proto/kinora/v1/config.proto
        DESTINATION ${CMAKE_INSTALL_DATADIR}/kinora/proto/kinora/v1 COMPONENT client)
install(FILES proto/google/rpc/status.proto proto/google/rpc/error_details.proto
        DESTINATION ${CMAKE_INSTALL_DATADIR}/kinora/proto/google/rpc COMPONENT client)
install(FILES proto/google/rpc/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/kinora/proto/google/rpc COMPONENT documents)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documents)
include(KinoraPackages)
