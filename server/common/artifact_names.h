// The IDs of the artifacts that a job has beside its clip, which is its first artifact.
#ifndef KINORA_SERVER_COMMON_ARTIFACT_NAMES_H_
#define KINORA_SERVER_COMMON_ARTIFACT_NAMES_H_

namespace kinora {

inline constexpr char kThumbnailArtifact[] = "thumbnail.jpg";  // Output.thumbnail
inline constexpr char kTraceArtifact[] = "trace.json";         // Output.trace

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_ARTIFACT_NAMES_H_
