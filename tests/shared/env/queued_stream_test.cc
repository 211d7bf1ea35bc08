#include "shared/env/queued_stream.h"

#include <csignal>
#include <fcntl.h>
#include <future>
#include <optional>
#include <sstream>
#include <thread>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "shared/base/descriptor.h"

namespace downpour {
namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    reader.emplace(ends[0]);
    writer.emplace(ends[1]);
  }
  /// Reads until the writer is closed.
  std::string read_all() const {
    std::string all;
    char text[4096];
    for (ssize_t n = 0; (n = ::read(reader->get(), text, sizeof text)) > 0;)
      all.append(text, size_t(n));
    return all;
  }
  std::optional<Descriptor> reader, writer;
};

TEST_CASE("a queued stream writes all lines in order", "[env]") {
  Pipe pipe;
  auto all = std::async(std::launch::async, [&] { return pipe.read_all(); });
  std::string printed;
  {
    QueuedStream stream(pipe.writer->get());
    for (int i = 0; i < 2000; ++i) {
      std::fprintf(stream.file(), "line %d\n", i);
      printed += "line " + std::to_string(i) + "\n";
    }
    std::fputs("no end of a line", stream.file());
    stream.drain();
    stream.drain();  // nothing is left
  }
  pipe.writer.reset();
  CHECK(all.get() == printed + "no end of a line");
}

TEST_CASE("a queued stream does not wait for its reader, and counts the lines that it drops",
          "[env]") {
  Pipe pipe;
  const std::string line(1023, 'x');
  constexpr size_t kLines = 8 * QueuedStream::kQueuedBytesMax / 1024;
  std::string all;
  {
    QueuedStream stream(pipe.writer->get());
    // The pipe takes 64 KiB. Without a reader, waiting would be forever.
    for (size_t i = 0; i < kLines; ++i) std::fprintf(stream.file(), "%s\n", line.c_str());
    std::thread reader([&] { all = pipe.read_all(); });
    stream.drain();
    pipe.writer.reset();
    reader.join();
  }
  // What was written and what the notes count is all.
  std::istringstream in(all);
  size_t written = 0, dropped = 0, notes = 0;
  for (std::string text; std::getline(in, text);) {
    if (text == line) {
      ++written;
      continue;
    }
    size_t count = 0;
    REQUIRE(std::sscanf(text.c_str(), "note: %zu lines were not read in time", &count) == 1);
    dropped += count;
    ++notes;
  }
  CHECK(written + dropped == kLines);
  CHECK(written >= QueuedStream::kQueuedBytesMax / 1024);
  CHECK(written < kLines / 2);
  CHECK(notes <= 2);
}

TEST_CASE("a queued stream without a reader drops its lines", "[env]") {
  Pipe pipe;
  pipe.reader.reset();
  ::signal(SIGPIPE, SIG_IGN);
  QueuedStream stream(pipe.writer->get());
  std::fputs("line\n", stream.file());
  stream.drain();
  ::signal(SIGPIPE, SIG_DFL);
}

}  // namespace
}  // namespace downpour
