# cmake --install BUILD [--prefix DIR] [--strip]: the programs, their manual pages and completion, and the API with all
# that it imports, for protoc -I PREFIX/share/kinora/proto. kinora-frontend looks for kinora-worker beside itself.
include(GNUInstallDirs)
install(TARGETS kinora kinora-decode kinora-frontend kinora-render kinora-worker RUNTIME)
install(FILES proto/kinora/v1/video_generation.proto proto/kinora/v1/config.proto
        DESTINATION ${CMAKE_INSTALL_DATADIR}/kinora/proto/kinora/v1)
install(FILES proto/google/rpc/status.proto proto/google/rpc/error_details.proto proto/google/rpc/LICENSE
        DESTINATION ${CMAKE_INSTALL_DATADIR}/kinora/proto/google/rpc)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Where each shell looks by itself, under /usr and /usr/local alike.
install(DIRECTORY ${CMAKE_BINARY_DIR}/manuals/man1/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(DIRECTORY ${CMAKE_BINARY_DIR}/manuals/bash/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(DIRECTORY ${CMAKE_BINARY_DIR}/manuals/zsh/ DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(DIRECTORY ${CMAKE_BINARY_DIR}/manuals/fish/ DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
