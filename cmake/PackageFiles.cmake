# Run by cpack on the components' files before they are packed: compresses manual pages, moves zsh's completion to where
# Debian's zsh looks, adds copyright and changelog.
function(compress file)
  execute_process(COMMAND gzip -9nf ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# SOURCE_DATE_EPOCH makes it the same each time.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(component ${CPACK_COMPONENTS_ALL})
  set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component})
  set(package kinora-${component})
  file(GLOB pages ${root}/usr/share/man/man1/*.1)
  foreach(page ${pages})
    compress(${page})
  endforeach()
  if(EXISTS ${root}/usr/share/zsh/site-functions)  # not of a component without programs
    file(RENAME ${root}/usr/share/zsh/site-functions ${root}/usr/share/zsh/vendor-completions)
  endif()

  set(documents ${root}/usr/share/doc/${package})
  file(MAKE_DIRECTORY ${documents})
  file(COPY_FILE ${CPACK_KINORA_SOURCE}/deploy/debian/copyright ${documents}/copyright)
  file(COPY_FILE ${CPACK_KINORA_SOURCE}/CHANGELOG.md ${documents}/changelog)
  file(WRITE ${documents}/changelog.Debian
       "kinora (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * What changed stands in /usr/share/doc/${package}/changelog.gz.

 -- ${CPACK_DEBIAN_PACKAGE_MAINTAINER}  ${date}
")
  compress(${documents}/changelog)
  compress(${documents}/changelog.Debian)
  file(CHMOD_RECURSE ${documents} FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ
       DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endforeach()
