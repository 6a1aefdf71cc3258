// Downloads the files of an ended job and reports them.
#ifndef KINORA_SERVER_CLIENT_CLIP_SAVING_H_
#define KINORA_SERVER_CLIENT_CLIP_SAVING_H_

#include <string>
#include <vector>

#include "kinora/v1/video_generation.pb.h"
#include "server/client/artifact_download.h"
#include "server/client/clip_output.h"
#include "server/client/connection.h"
#include "server/terminal/progress_display.h"

namespace kinora {

struct SaveOptions {
  int n = 1;               // the job's number in its batch
  std::string only;        // only the artifact of this id; empty: the clip and its trace
  bool thumbnail = false;  // without `only`: also the thumbnail
  bool json = false;       // report errors as JSON
  DownloadPatience patience;
};

struct Saved {
  ExitStatus exit_status = kSuccess;  // errors have been reported, except a halt
  std::vector<std::string> paths{};   // of the saved files; "-": standard output
};

// Downloads the files of a job. After a halt it returns kUnreachable and reports nothing.
Saved SaveArtifacts(const Connection& connection, const v1::Video& video, ClipOutput& output,
                    const SaveOptions& options);

// Returns "128x128, 1.04 s, seed 901932739, took 2.9 s"; for the WAV file `path`, "audio, 1.01 s, …", with the length
// from the file if it is readable.
std::string DescribeClip(const v1::Video& video, const std::string& path);

// Prints to standard output the first file with its description and the other files below it; with `json`, the job and
// the paths in one line. Prints the text to standard error if standard output has the clip.
void PrintSaved(const v1::Video& video, const std::vector<std::string>& paths, bool json);

// Reports how the job ended, unless it was completed.
ExitStatus ReportOutcome(const v1::Video& video, ProgressDisplay& display);

// Reports a failed call or stream, and how to follow a job that was accepted.
ExitStatus ReportBroken(const grpc::Status& status, const v1::Video& video, bool json);

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_CLIP_SAVING_H_
