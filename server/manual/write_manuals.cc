// kinora-manuals FOLDER: writes man1/NAME.1, bash/NAME, zsh/_NAME and fish/NAME.fish of every program into FOLDER. The
// build runs it; it is not installed.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "server/manual/manual.h"

namespace {

bool Write(const std::filesystem::path& path, const std::string& text) {
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) std::fprintf(stderr, "kinora-manuals: %s: cannot be written\n", path.c_str());
  return static_cast<bool>(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("kinora-manuals FOLDER\n", stderr);
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  bool written = true;
  for (const kinora::ProgramManual& manual : kinora::AllManuals()) {
    const std::string name = manual.program.name;
    written &= Write(folder / "man1" / (name + ".1"), ManPage(manual));
    written &= Write(folder / "bash" / name, BashCompletion(manual));
    written &= Write(folder / "zsh" / ("_" + name), ZshCompletion(manual));
    written &= Write(folder / "fish" / (name + ".fish"), FishCompletion(manual));
  }
  return written ? 0 : 1;
}
