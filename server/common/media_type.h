// What kind of file bytes are, by what stands at their beginning: the types of inputs that a client may upload. Whether
// they really are such a file is the decoder's to say.
#ifndef KINORA_SERVER_COMMON_MEDIA_TYPE_H_
#define KINORA_SERVER_COMMON_MEDIA_TYPE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace kinora {

inline constexpr size_t kMediaHead = 4096;  // bytes of a file that tell its type

// "image/png", "image/jpeg", "image/webp", "video/mp4", "video/webm", "audio/wav", "audio/flac", "audio/mpeg",
// "audio/aac" (ADTS) or "audio/mp4" (AAC in an MP4 file without a picture, by its brand); "": none of these.
std::string_view MediaTypeOf(std::string_view head);

bool IsMediaType(std::string_view media_type);  // one of the above
std::string MediaTypeNames();                   // all of them, for an error

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_MEDIA_TYPE_H_
