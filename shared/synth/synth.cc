#include "shared/synth/synth.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

#include "shared/base/rng.h"
#include "shared/base/units.h"
#include "shared/env/io_error.h"
#include "shared/metrics/auc.h"

namespace downpour::data {
namespace {

constexpr uint32_t kNormalSteps = 1 << 16;  // two random bytes choose a step
constexpr uint64_t kRowsPerChunk = 16384;
constexpr size_t kPlacesPerPiece = 16384;
constexpr double kBias = -1.4;

Error write_error(const std::string& path, int number) {
  return system_error("can't write", path, number, Intent::kCreate);
}

// A short text in a buffer of fixed size, so that writing it is one copy of 15 bytes.
struct Token {
  char text[15] = {};
  uint8_t length = 0;
  void set(const std::string& from) {
    length = uint8_t(std::min(from.size(), sizeof text));
    std::memcpy(text, from.data(), length);
  }
};

char* put(char* at, const Token& token) {
  std::memcpy(at, token.text, sizeof token.text);
  return at + token.length;
}

// Returns a quantile of the normal distribution (Acklam 2003, relative error 1.2e-9).
double normal_quantile(double p) {
  constexpr double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                          1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
                          6.680131188771972e+01, -1.328068155288572e+01};
  constexpr double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                          -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  constexpr double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                          3.754408661907416e+00};
  const auto tail = [&](double q) {
    return (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
           ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
  };
  if (p < 0.02425) return tail(std::sqrt(-2 * std::log(p)));
  if (p > 1 - 0.02425) return -tail(std::sqrt(-2 * std::log(1 - p)));
  const double q = p - 0.5;
  const double r = q * q;
  return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
         (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
}

// Calls work(thread) on `count` threads, including this one, and waits for all.
template <typename Work>
void on_threads(uint32_t count, const Work& work) {
  std::vector<std::thread> threads;
  for (uint32_t t = 1; t < count; ++t) threads.emplace_back(work, t);
  work(0);
  for (std::thread& thread : threads) thread.join();
}

// The model and all texts, computed once and shared by the threads.
class Model {
 public:
  Model(const SynthOptions& options, uint32_t threads)
      : options_(options),
        weights_(size_t(options.categorical) * options.ids),
        ids_(options.format == SynthFormat::kLibsvm ? weights_.size() : 0) {
    std::atomic<size_t> next{0};
    on_threads(threads, [&](uint32_t) {
      for (size_t piece = next++; make(piece); piece = next++) {
      }
    });
  }

  struct Totals {
    uint64_t positives = 0;
    double logloss = 0;
    AucHistogram auc;
  };

  size_t row_bytes_max() const {
    return 24 + (options_.numeric + options_.categorical) * (sizeof(Token::text) + 16);
  }

  // The random values of a row.
  struct Draw {
    explicit Draw(const SynthOptions& options)
        : steps((options.numeric + 3) / 4 * 4), places(options.categorical) {}
    std::vector<uint16_t> steps;  // indexes in normal_: per numeric field, and up to three unused
    std::vector<size_t> places;   // indexes in weights_: per categorical field
    double label = 0;
  };

  /// Draws a row and prefetches the weights and texts of its ids, which are at random places in
  /// tables larger than the caches. So the caller draws a row before it writes the previous one.
  void draw(Rng& rng, Draw& row) const {
    for (size_t j = 0; j < row.steps.size(); j += 4) {
      const uint64_t word = rng.next();
      std::memcpy(&row.steps[j], &word, sizeof word);
    }
    for (size_t f = 0; f < row.places.size(); ++f) {
      const uint64_t random = rng.next();
      const auto column = uint32_t((uint64_t(uint32_t(random)) * options_.ids) >> 32);
      const Column& alias = alias_[column];
      const uint32_t other = 0 - uint32_t(uint32_t(random >> 32) >= alias.threshold);  // a mask
      const uint32_t id = column ^ ((column ^ alias.other) & other);  // an unpredictable choice
      const size_t place = f * options_.ids + id;
      if (!ids_.empty()) __builtin_prefetch(&ids_[place]);
      __builtin_prefetch(&weights_[place]);
      row.places[f] = place;
    }
    row.label = rng.uniform64();
  }

  char* write(const Draw& row, char* at, Totals& totals) const {
    const bool libsvm = options_.format == SynthFormat::kLibsvm;
    const char separator = options_.format == SynthFormat::kCsv ? ',' : '\t';
    char* const label_at = at++;
    double z = kBias;
    for (uint32_t j = 0; j < options_.numeric; ++j) {
      const Number& number = numbers_[normal_[row.steps[j]]];
      z += double(numeric_weights_[j]) * double(number.value);
      if (libsvm) {
        at = put(at, names_[j]);
      } else {
        *at++ = separator;
      }
      std::memcpy(at, number.text, sizeof number.text);
      at += number.length;
    }
    for (const size_t place : row.places) {
      z += double(weights_[place]);
      at = libsvm ? put(at, ids_[place]) : put_category(at, separator, place);
    }
    const double p = 1 / (1 + std::exp(-z));
    const bool positive = row.label < p;
    *label_at = positive ? '1' : '0';
    *at++ = '\n';
    totals.positives += positive ? 1 : 0;
    totals.logloss -= std::log(positive ? p : 1 - p);
    totals.auc.add(float(z), positive ? 1.0F : 0.0F);
    return at;
  }

  std::string header() const {
    if (options_.format != SynthFormat::kCsv) return {};
    std::string line = "label";
    for (uint32_t j = 0; j < options_.numeric; ++j) line += str(",I", j + 1);
    for (uint32_t f = 0; f < options_.categorical; ++f) line += str(",C", f + 1);
    return line + "\n";
  }

 private:
  struct Column {
    uint32_t threshold = 0;
    uint32_t other = 0;
  };

  // A possible value of a numeric field.
  struct Number {
    char text[8] = {};
    float value = 0;
    uint32_t length = 0;
  };

  /// Computes one piece of the tables. Several threads may compute different pieces. Returns false
  /// if there is no such piece.
  bool make(size_t piece) {
    if (piece == 0) {
      make_alias();
    } else if (piece == 1) {
      make_numbers();
    } else {
      const size_t begin = (piece - 2) * kPlacesPerPiece;
      if (begin >= weights_.size()) return false;
      make_places(begin, std::min(weights_.size(), begin + kPlacesPerPiece));
    }
    return true;
  }

  /// Computes the weights and texts of ids.
  void make_places(size_t begin, size_t end) {
    Rng rng(options_.seed);
    rng.skip(2 * begin);
    for (size_t place = begin; place < end; ++place) weights_[place] = float(0.3 * rng.normal());
    if (ids_.empty()) return;
    for (size_t place = begin; place < end; ++place) {
      char text[32];
      std::snprintf(text, sizeof text, " %llu:1",
                    static_cast<unsigned long long>(options_.numeric + 1 + place));
      ids_[place].set(text);
    }
  }

  /// Computes the weights and names of the numeric fields, and their possible values.
  void make_numbers() {
    Rng rng(options_.seed);
    rng.skip(2 * weights_.size());
    for (uint32_t j = 0; j < options_.numeric; ++j) {
      numeric_weights_.push_back(float(0.2 * rng.normal()));
      names_.emplace_back().set(str(" ", j + 1, ":"));
    }
    normal_.resize(kNormalSteps);
    double last = -5;
    for (uint32_t i = 0; i < kNormalSteps; ++i) {  // ascending, so equal values are adjacent
      const double x = std::clamp(
          std::round(normal_quantile((i + 0.5) / kNormalSteps) * 1000) / 1000, -4.0, 4.0);
      if (x != last || std::signbit(x) != std::signbit(last)) {
        char text[16];
        Number& number = numbers_.emplace_back();
        number.length = uint32_t(std::snprintf(text, sizeof text, "%.3f", x));
        std::memcpy(number.text, text, sizeof number.text);
        number.value = float(x);
      }
      last = x;
      normal_[i] = uint16_t(numbers_.size() - 1);
    }
  }

  // Builds the alias table (Vose 1991): samples a discrete distribution with one random number and
  // one table lookup.
  void make_alias() {
    const uint32_t n = options_.ids;
    std::vector<double> p(n);
    double sum = 0;
    for (uint32_t i = 0; i < n; ++i) sum += p[i] = std::pow(i + 1.0, -options_.zipf);
    std::vector<uint32_t> small, large;
    for (uint32_t i = 0; i < n; ++i) {
      p[i] *= n / sum;
      (p[i] < 1 ? small : large).push_back(i);
    }
    alias_.resize(n);
    while (!small.empty() && !large.empty()) {
      const uint32_t s = small.back();
      const uint32_t l = large.back();
      small.pop_back();
      alias_[s] = {uint32_t(p[s] * 4294967295.0), l};
      p[l] -= 1 - p[s];
      if (p[l] < 1) {
        large.pop_back();
        small.push_back(l);
      }
    }
    for (const uint32_t i : small) alias_[i] = {UINT32_MAX, i};
    for (const uint32_t i : large) alias_[i] = {UINT32_MAX, i};
  }

  /// Writes a hashed category as in click logs: eight hexadecimal digits. Computing them is faster
  /// than a table lookup.
  static char* put_category(char* at, char separator, size_t place) {
    // Spread the 32 bits to four bits per byte, the lowest first.
    uint64_t digits = uint32_t(mix64(place + 1));
    digits = (digits | digits << 16) & 0x0000ffff0000ffff;
    digits = (digits | digits << 8) & 0x00ff00ff00ff00ff;
    digits = (digits | digits << 4) & 0x0f0f0f0f0f0f0f0f;
    const uint64_t letters = ((digits + 0x0606060606060606) >> 4) & 0x0101010101010101;
    digits += 0x3030303030303030 + letters * ('a' - '0' - 10);
    digits = __builtin_bswap64(digits);
    *at = separator;
    std::memcpy(at + 1, &digits, sizeof digits);
    return at + 1 + sizeof digits;
  }

  SynthOptions options_;
  std::vector<float> weights_, numeric_weights_;
  // Quantiles of the normal distribution at equal steps, as indexes in numbers_.
  std::vector<uint16_t> normal_;
  std::vector<Number> numbers_;
  std::vector<Token> names_, ids_;
  std::vector<Column> alias_;
};

// Writes chunks in order. Each thread writes the chunks that it has computed.
class OrderedWriter {
 public:
  explicit OrderedWriter(int fd) : fd_(fd) {}

  /// Blocks until all earlier chunks are written.
  void write(uint64_t chunk, std::string_view text) {
    std::unique_lock lock(mutex_);
    // After an error, earlier chunks may never be written.
    turn_.wait(lock, [&] { return chunk == next_ || error_ != 0; });
    if (error_ == 0) {
      lock.unlock();  // no other thread writes, because the next chunk waits for next_
      const int error = write_all(text.data(), text.size());
      lock.lock();
      error_ = error;
      bytes_ += text.size();
    }
    ++next_;
    turn_.notify_all();
  }
  int error() const { return error_; }
  uint64_t bytes() const { return bytes_; }

 private:
  int write_all(const char* data, size_t bytes) const {
    while (bytes > 0) {
      const ssize_t n = ::write(fd_, data, bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno;
      data += n;
      bytes -= size_t(n);
    }
    return 0;
  }

  int fd_;
  std::mutex mutex_;
  std::condition_variable turn_;
  uint64_t next_ = 0;
  uint64_t bytes_ = 0;
  std::atomic<int> error_{0};  // all threads read it between chunks
};

}  // namespace

Result<SynthResult> synthesize(const SynthOptions& options, const std::string& path,
                               uint32_t threads_wanted) {
  if (options.rows == 0 || options.ids == 0 || options.numeric + options.categorical == 0 ||
      threads_wanted == 0) {
    return Error{ErrorCode::kUsage, "synth needs at least one row, one field and one id", "",
                 "see downpour synth --help", ""};
  }
  const auto start = std::chrono::steady_clock::now();
  const std::string partial = path + ".partial";
  const int fd =
      ::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return write_error(path, errno);
  const Model model(options, threads_wanted);
  const std::string header = model.header();
  if (!header.empty() && ::write(fd, header.data(), header.size()) != ssize_t(header.size())) {
    const int error = errno;
    ::close(fd);
    ::unlink(partial.c_str());
    return write_error(path, error);
  }
  const uint64_t chunks = (options.rows + kRowsPerChunk - 1) / kRowsPerChunk;
  OrderedWriter writer(fd);
  std::atomic<uint64_t> next{0};
  // Sums are kept per chunk and added in order, so the results do not depend on the number of
  // threads.
  threads_wanted = uint32_t(std::min<uint64_t>(threads_wanted, chunks));
  std::vector<double> logloss(chunks);
  std::vector<Model::Totals> totals(threads_wanted);
  const auto write_chunks = [&](uint32_t thread) {
    const auto buffer = std::make_unique_for_overwrite<char[]>(
        std::min(kRowsPerChunk, options.rows) * model.row_bytes_max());
    Model::Draw draws[] = {Model::Draw(options), Model::Draw(options)};
    for (uint64_t chunk = next++; chunk < chunks && writer.error() == 0; chunk = next++) {
      Rng rng(hash_combine(hash_combine(options.seed, options.stream + 1), chunk));
      const uint64_t rows = std::min(kRowsPerChunk, options.rows - chunk * kRowsPerChunk);
      totals[thread].logloss = 0;
      char* at = buffer.get();
      model.draw(rng, draws[0]);
      for (uint64_t r = 0; r < rows; ++r) {
        model.draw(rng, draws[(r + 1) % 2]);
        at = model.write(draws[r % 2], at, totals[thread]);
      }
      logloss[chunk] = totals[thread].logloss;
      writer.write(chunk, {buffer.get(), at});
    }
  };
  on_threads(threads_wanted, write_chunks);
  const int close_error = ::close(fd) == 0 ? 0 : errno;
  const int error = writer.error() != 0 ? writer.error() : close_error;
  if (error != 0 || ::rename(partial.c_str(), path.c_str()) != 0) {
    const int why = error != 0 ? error : errno;
    ::unlink(partial.c_str());
    return write_error(path, why);
  }
  SynthResult result;
  result.rows = options.rows;
  result.bytes = writer.bytes() + header.size();
  for (const double part : logloss) result.bayes_logloss += part;
  result.bayes_logloss /= double(options.rows);
  for (uint32_t t = 1; t < threads_wanted; ++t) totals[0].auc.merge(totals[t].auc);
  for (const Model::Totals& part : totals) result.positives += part.positives;
  result.bayes_auc = totals[0].auc.value();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace downpour::data
