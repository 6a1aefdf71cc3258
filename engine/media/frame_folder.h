// A folder of frames as PNG, 000000.png, 000001.png, …: those of one clip and nothing else, so that whoever reads all
// pictures in it reads that clip. A clip replaces the frames of the one before; another's files are refused, not mixed.
#ifndef KINORA_ENGINE_MEDIA_FRAME_FOLDER_H_
#define KINORA_ENGINE_MEDIA_FRAME_FOLDER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace kinora {

std::string FrameName(int64_t index);  // "000012.png"
bool IsFrameName(std::string_view name);

// OK: the folder holds frames, files that are hidden or not whole yet (.part), and what lies beside a clip under its
// job's name (32 hexadecimal digits and a dot), or is not there. InvalidArgument names another file.
absl::Status CheckFrameFolder(const std::string& folder);

// Removes all frames. Before the first of a new clip is stored, so that a clip that fails on its way leaves only its
// own.
absl::Status RemoveFrames(const std::string& folder);

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_FRAME_FOLDER_H_
