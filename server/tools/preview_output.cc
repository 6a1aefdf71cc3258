#include "server/tools/preview_output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/media/output_file.h"
#include "server/tools/job_text.h"

namespace kinora {
namespace {

constexpr FlagSpec kFlags[] = {{"preview", "[FILE]",
                                "shows about what the clip will look like, in terminals that can (kitty, iTerm2, "
                                "sixel), or as a JPEG in FILE that "
                                "is replaced again and again"}};

constexpr int64_t kLongest = 2048;     // of a picture's sides: no server sends a longer one
constexpr int64_t kLongestSent = 256;  // to kitty, which gets every pixel, and enlarges

TerminalSize SizeOf(int fd) {
  TerminalSize terminal;
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return terminal;
  return {.columns = size.ws_col,
          .rows = size.ws_row,
          .cell_width = size.ws_xpixel / size.ws_col,
          .cell_height = size.ws_ypixel / size.ws_row};
}

absl::Status WriteFile(const std::string& path, const std::string& bytes) {
  KINORA_ASSIGN_OR_RETURN(const auto file, OutputFile::Create(path));
  KINORA_RETURN_IF_ERROR(file->Write(bytes));
  return file->Commit();
}

RgbPicture NoLongerThan(int64_t longest, RgbPicture picture) {
  const int64_t side = std::max(picture.width, picture.height);
  if (side <= longest) return picture;
  const auto scaled = [&](int64_t length) { return std::max<int64_t>(1, length * longest / side); };
  return Resize(picture, scaled(picture.width), scaled(picture.height));
}

}  // namespace

absl::Span<const FlagSpec> PreviewFlags() { return kFlags; }

absl::StatusOr<PreviewOutput> PreviewOutput::FromFlag(const CommandLine& line) {
  PreviewOutput output;
  if (!line.Has("preview")) return output;
  output.wanted_ = true;
  output.file_ = line.Get("preview").value_or("");
  if (!output.file_.empty()) {
    if (HasJpegEnding(output.file_)) return output;
    return absl::InvalidArgumentError(
        absl::StrCat("--preview=", output.file_, ": a preview is a JPEG; let the name end in .jpg"));
  }
  output.protocol_ = DetectPictureProtocol([](const char* name) { return std::getenv(name); });
  if (isatty(STDERR_FILENO) == 1 && output.protocol_ != PictureProtocol::kNone) return output;
  return absl::InvalidArgumentError(
      absl::StrCat("--preview: ",
                   isatty(STDERR_FILENO) == 1 ? "this terminal is not known to show pictures (kitty, iTerm2 and those "
                                                "with sixels in TERM are)"
                                              : "standard error is no terminal",
                   "; give a file, --preview=FILE.jpg"));
}

void PreviewOutput::Show(const v1::Preview& preview, ProgressDisplay& display) const {
  const absl::Status shown = file_.empty() ? ShowInTerminal(preview, display) : WriteFile(file_, preview.image());
  if (!shown.ok()) {
    display.NoteOnce(absl::StrCat("no preview: ", Printable(std::string(shown.message()), /*keep_lines=*/false)));
  }
}

absl::Status PreviewOutput::ShowInTerminal(const v1::Preview& preview, ProgressDisplay& display) const {
  // Decoded also where the terminal gets the file: what a server sends is shown as a picture, or not at all.
  KINORA_ASSIGN_OR_RETURN(RgbPicture picture, DecodeJpeg(preview.image(), kLongest));
  const TerminalSize terminal = SizeOf(STDERR_FILENO);
  const PictureCells cells = FitIntoCells(picture.width, picture.height, terminal);
  switch (protocol_) {
    case PictureProtocol::kKitty:
      display.Picture(KittySequence(NoLongerThan(kLongestSent, std::move(picture)), cells), cells.rows);
      break;
    case PictureProtocol::kITerm2:
      display.Picture(ITerm2Sequence(preview.image(), cells), cells.rows);
      break;
    case PictureProtocol::kSixel: {
      const int width = cells.columns * (terminal.cell_width > 0 ? terminal.cell_width : 10);
      const int height = cells.rows * (terminal.cell_height > 0 ? terminal.cell_height : 20);
      display.Picture(SixelSequence(Resize(picture, width, height)), cells.rows);
      break;
    }
    case PictureProtocol::kNone:
      break;
  }
  return absl::OkStatus();
}

}  // namespace kinora
