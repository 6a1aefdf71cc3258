// A folder of PNG frames, 000000.png, 000001.png, …, of one clip and no other pictures, so that a program which reads
// all pictures in it reads that clip. A new clip replaces the frames of the previous one. A folder with other files is
// rejected.
#ifndef KINORA_ENGINE_MEDIA_FRAME_FOLDER_H_
#define KINORA_ENGINE_MEDIA_FRAME_FOLDER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace kinora {

std::string FrameName(int64_t index);  // "000012.png"
bool IsFrameName(std::string_view name);

// Returns OK if the folder does not exist or holds only frames, hidden files, partial files (.part), and other files of
// a job, whose names begin with its id (32 hexadecimal digits and a dot). Otherwise fails with InvalidArgument, naming
// a file.
absl::Status CheckFrameFolder(const std::string& folder);

// Removes all frames. Call it before the first frame of a new clip is stored, so that a clip that fails leaves only its
// own frames.
absl::Status RemoveFrames(const std::string& folder);

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_FRAME_FOLDER_H_
