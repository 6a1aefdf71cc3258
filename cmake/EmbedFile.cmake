# kinora_embed(TARGET NAME FILE): a library that holds FILE, which the build makes, as
#   namespace kinora { extern const unsigned char NAME[]; extern const size_t NAMESize; }
#
# As a script (cmake -DIN=FILE -DOUT=FILE.cc -DNAME=NAME -P) it writes the source.
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${IN} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  file(WRITE ${OUT} "#include <cstddef>

namespace kinora {
extern const unsigned char ${NAME}[];
extern const size_t ${NAME}Size;
const unsigned char ${NAME}[] = {${bytes}};
const size_t ${NAME}Size = sizeof(${NAME});
}
")
  return()
endif()

set(KINORA_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(kinora_embed target name file)
  add_custom_command(
    OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${target}.cc
    COMMAND ${CMAKE_COMMAND} -DIN=${file} -DOUT=${CMAKE_CURRENT_BINARY_DIR}/${target}.cc -DNAME=${name}
            -P ${KINORA_EMBED_SCRIPT}
    DEPENDS ${file} ${KINORA_EMBED_SCRIPT}
    VERBATIM)
  add_library(${target} ${CMAKE_CURRENT_BINARY_DIR}/${target}.cc)
endfunction()
