// `kinora upload` and the files of `generate` and `create`, against a real frontend.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/common/sha256.h"
#include "tests/e2e/scripted_server.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

class Uploads : public ScriptedServer {
 protected:
  Uploads() {
    server_.Start();
    WriteFile(picture_, "\x89PNG\r\n\x1a\n" + std::string(3'000'000, 'p'));
    WriteFile(clip_, std::string("\0\0\0\x20", 4) + "ftypisom" + std::string(1000, 'c'));
    WriteFile(sound_, "fLaC" + std::string(1000, 's'));
  }
  int Stored() const {
    const fs::path folder = directory_.File("state/artifacts/inputs");
    return fs::exists(folder) ? static_cast<int>(std::distance(fs::directory_iterator(folder), {})) : 0;
  }

  const std::string picture_ = directory_.File("me@home.png"), clip_ = directory_.File("a:b.mp4"),
                    sound_ = directory_.File("sound.flac");
};

TEST_F(Uploads, AFileIsSentOnceWithABarAndItsIdPrinted) {
  const Result first = server_.Run({"upload", picture_});
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.out, MatchesRegex("[0-9a-f]{64}\n"));
  EXPECT_THAT(first.err, HasSubstr("upload me@home.png 0/3, 0%"));
  const Result again = server_.Run({"upload", picture_});
  EXPECT_EQ(again.out, first.out);
  EXPECT_THAT(again.err, Not(HasSubstr("upload me@home.png")));  // nothing was sent
  const auto input = server_.Json({"upload", picture_});
  EXPECT_EQ(input["media_type"], "image/png");
  EXPECT_EQ(Stored(), 1);
}

TEST_F(Uploads, WhatIsWrongWithAFileIsSaidByItsName) {
  WriteFile(directory_.File("empty.png"), "");
  WriteFile(directory_.File("notes.png"), "not a picture");
  const auto told = [&](const std::vector<std::string>& arguments) {
    const Result result = server_.Run(arguments);
    EXPECT_NE(result.status, 0);
    return result.err;
  };
  EXPECT_THAT(told({"upload", directory_.File("nothing.png")}), HasSubstr("nothing.png: cannot be read"));
  EXPECT_THAT(told({"upload", directory_.File("empty.png")}), HasSubstr("empty.png: is empty"));
  EXPECT_THAT(told({"upload", directory_.File("notes.png")}), HasSubstr("data: is not of a supported type"));
  EXPECT_THAT(told({"create", "x", "--image", directory_.File("notes.png")}),
              AllOf(HasSubstr("--image"), HasSubstr("is not of a supported type")));
  ASSERT_EQ(mkfifo(directory_.File("pipe.png").c_str(), 0600), 0);
  for (const std::string& endless : {directory_.File("pipe.png"), std::string("/dev/zero"), directory_.path()}) {
    EXPECT_THAT(told({"upload", endless}), HasSubstr(endless + ": is a folder, pipe or device"));
  }
  EXPECT_THAT(told({"create", "x", "--retake", clip_}), HasSubstr("--retake"));
  EXPECT_THAT(told({"create", "x", "--audio", picture_}), HasSubstr("use --image"));
  EXPECT_EQ(Stored(), 0);
}

TEST_F(Uploads, GoOnWhereAnEarlierOneWas) {
  const std::string bytes = ReadFile(picture_);
  v1::UploadInputRequest request;
  request.mutable_header()->set_sha256(Sha256Hex(bytes));
  request.mutable_header()->set_bytes(std::ssize(bytes));
  const auto stub = v1::VideoGeneration::NewStub(
      grpc::CreateChannel("unix:" + directory_.File("api.sock"), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::Input input;
  const auto writer = stub->UploadInput(&context, &input);
  writer->Write(request);
  request.set_data(bytes.substr(0, 1'000'000));
  writer->Write(request);
  writer->WritesDone();
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);  // ends too early
  const Result rest = server_.Run({"upload", picture_});
  EXPECT_EQ(rest.out, Sha256Hex(bytes) + "\n") << rest.err;
  EXPECT_THAT(server_.MetricsPage(), HasSubstr(absl::StrCat("kinora_uploaded_bytes_total ", bytes.size(), "\n")));
  EXPECT_EQ(ReadFile(directory_.File("state/artifacts/inputs/" + Sha256Hex(bytes))), bytes);
}

TEST_F(Uploads, CtrlCEndsTheReadingOfALargeFile) {
  const std::string large = directory_.File("large.mp4");
  WriteFile(large, ReadFile(clip_));
  fs::resize_file(large, uintmax_t{1} << 40);  // sparse: occupies almost no disk space
  Process client(server_.Client({"upload", large}));
  ASSERT_NE(client.AwaitLine("read large.mp4"), "");
  client.Signal(SIGINT);
  EXPECT_EQ(client.Wait(), kCancelled);
}

TEST_F(Uploads, GenerateAndCreateUploadTheirFilesAndNameThem) {
  for (const char* command : {"generate", "create"}) {
    std::vector<std::string> arguments = {command, "x", "--image", picture_, "--image", picture_ + "@8:0.5"};
    if (std::string(command) == "generate") arguments.insert(arguments.end(), {"-o", directory_.File("out.mp4")});
    const Result images = server_.Run(arguments);
    EXPECT_EQ(images.status, 0) << images.err;
    EXPECT_EQ(Stored(), 1);
  }
  const auto job = nlohmann::json::parse(server_.Run({"list", "--json", "--limit=1"}).out);
  EXPECT_EQ(job["effective"]["conditions"][1]["image"]["input_id"], Sha256Hex(ReadFile(picture_)));
  const Result heard = server_.Run({"create", "x", "--audio", sound_, "--json"});
  EXPECT_EQ(nlohmann::json::parse(heard.out)["effective"]["audio"]["media"]["input_id"], Sha256Hex(ReadFile(sound_)));
  EXPECT_EQ(Stored(), 2);
  server_.Run({"create", "x", "--retake", clip_ + ":0-0.2"});
  EXPECT_EQ(Stored(), 3);
}

}  // namespace
}  // namespace kinora
