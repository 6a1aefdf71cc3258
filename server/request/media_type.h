// Detects the type of a file, among those that a client may upload, from its first bytes. Only the decoder determines
// whether the file is valid.
#ifndef KINORA_SERVER_REQUEST_MEDIA_TYPE_H_
#define KINORA_SERVER_REQUEST_MEDIA_TYPE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace kinora {

inline constexpr size_t kMediaHead = 4096;  // bytes at a file's beginning that determine its type

// Returns "image/png", "image/jpeg", "image/webp", "video/mp4", "video/webm", "audio/wav", "audio/flac", "audio/mpeg",
// "audio/aac" (ADTS), "audio/mp4" (AAC in an MP4 file without a picture, by its brand), or "" for any other file.
std::string_view MediaTypeOf(std::string_view head);

bool IsMediaType(std::string_view media_type);  // one that MediaTypeOf returns
std::string MediaTypeNames();                   // all of them, for error messages

}  // namespace kinora

#endif  // KINORA_SERVER_REQUEST_MEDIA_TYPE_H_
