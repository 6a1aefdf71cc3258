#include "server/request/media_type.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

namespace kinora {
namespace {

using std::string;

string Bytes(std::initializer_list<int> bytes) { return {bytes.begin(), bytes.end()}; }

string Ftyp(const string& brand) { return string("\0\0\0\x20", 4) + "ftyp" + brand; }

string Ebml(const string& type) {
  return Bytes({0x1a, 0x45, 0xdf, 0xa3, 0x9f, 0x42, 0x86, 0x81, 1, 0x42, 0x82, 0x80 + static_cast<int>(type.size())}) +
         type;
}

// `size` bytes follow the header of ten bytes.
string Id3(int size) { return "ID3" + Bytes({4, 0, 0, 0, 0, size >> 7, size & 0x7f}) + string(size, 't'); }

TEST(MediaType, EveryTypeIsKnownByItsBeginning) {
  const string mp3 = Bytes({0xff, 0xfb, 0x90, 0x64}), aac = Bytes({0xff, 0xf1, 0x50, 0x80});
  const std::vector<std::pair<string, string>> files = {{"\x89PNG\r\n\x1a\n", "image/png"},
                                                        {"\xff\xd8\xff\xe0", "image/jpeg"},
                                                        {"RIFF....WEBPVP8 ", "image/webp"},
                                                        {Ftyp("isom"), "video/mp4"},
                                                        {Ftyp("mp42"), "video/mp4"},
                                                        {Ftyp("M4A "), "audio/mp4"},
                                                        {Ebml("webm"), "video/webm"},
                                                        {"RIFF....WAVEfmt ", "audio/wav"},
                                                        {"fLaC", "audio/flac"},
                                                        {mp3, "audio/mpeg"},
                                                        {Id3(200) + mp3, "audio/mpeg"},
                                                        {Id3(9000), "audio/mpeg"},
                                                        {Id3(200) + aac, "audio/aac"},
                                                        {aac, "audio/aac"}};
  for (const auto& [bytes, type] : files) {
    EXPECT_EQ(MediaTypeOf(bytes), type);
    EXPECT_TRUE(IsMediaType(type));
    EXPECT_THAT(MediaTypeNames(), testing::HasSubstr(type));
    for (size_t size = 0; size < std::min<size_t>(bytes.size(), 4); ++size) MediaTypeOf(bytes.substr(0, size));
  }
}

TEST(MediaType, OtherFilesAreNone) {
  const string silent_layer = Bytes({0xff, 0xff, 0x90, 0x64}), reserved = Bytes({0xff, 0xfb, 0xf0, 0x64});
  for (const string& bytes :
       {string(), string("%PDF-1.7"), string("GIF89a"), string("<svg xmlns="), string("RIFF....AVI "), string("RIFF"),
        Ftyp("qt  "), Ftyp("heic"), Ftyp("avif"), Ebml("matroska"), silent_layer, reserved, string(4096, '\0'),
        string("#EXTM3U\nfile:///etc/passwd"), string("ffconcat version 1.0\nfile /etc/passwd")}) {
    EXPECT_EQ(MediaTypeOf(bytes), "") << bytes;
  }
  for (const char* type : {"", "image", "image/gif", "application/octet-stream"}) EXPECT_FALSE(IsMediaType(type));
}

}  // namespace
}  // namespace kinora
