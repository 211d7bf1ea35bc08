// Data formats: what the checks of a job's settings need to know about each format. How a format is
// read is in shared/data/formats.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/job/job.h"

namespace downpour {

/// How the records of a format are laid out. The code that reads records depends on the layout, and
/// formats of one layout differ by their traits. Detection tries the layouts in this order, so that
/// one comes before those that its files resemble.
enum class RecordLayout : uint8_t {
  kUnknown,  // DataFormat::kAuto
  kArrays,   // row i of every array
  kFrames,   // records with length and checksum
  kImages,
  kJsonLines,    // a line is a JSON object
  kSparseLines,  // a line has a label and features by number
  kTable,        // a line has one cell for each column
  kColumns,      // columns in the memory of this process
  kLast = kColumns,
};

struct FormatTraits {
  DataFormat format = DataFormat::kAuto;
  std::string_view name;
  RecordLayout layout = RecordLayout::kUnknown;
  bool typed = false;  // the format stores the type of each value; false: values are texts to parse
  bool has_paths = false;   // a field may have `path`
  bool writable = false;    // data.source may be a program that writes the format
  bool filterable = false;  // records may pass through data.program
  bool encodable = false;   // `downpour shard` converts records of other formats to it
  // `downpour shard` copies records to files of this format; auto: the format itself.
  DataFormat copied_as = DataFormat::kAuto;
  std::string_view ending = {};  // of the files that it writes; empty: the name
  char delimiter = 0;            // of a table's cells, unless data.delimiter names another
  bool quotes = false;           // a table's cells may be quoted, and then contain the delimiter
  // Fields that the format defines itself; null: none. Fields of the job take precedence.
  std::vector<FieldSpec> (*default_fields)() = nullptr;
  bool own_columns = false;  // the default fields are the columns
};

/// Fields of a libsvm line: `label` and `features`.
std::vector<FieldSpec> sparse_line_fields();
/// Fields of a Criteo line (Criteo Display Advertising Challenge, 2014): `label`, I1 to I13, C1 to
/// C26.
std::vector<FieldSpec> criteo_fields();
/// Fields of idx files: `image` and `label`.
std::vector<FieldSpec> mnist_fields();

/// One entry per format, in the order of the enum.
inline constexpr std::array kFormats = {
    FormatTraits{.format = DataFormat::kAuto, .name = "auto"},
    FormatTraits{.format = DataFormat::kLibsvm,
                 .name = "libsvm",
                 .layout = RecordLayout::kSparseLines,
                 .writable = true,
                 .filterable = true,
                 .encodable = true,
                 .default_fields = sparse_line_fields},
    FormatTraits{.format = DataFormat::kCsv,
                 .name = "csv",
                 .layout = RecordLayout::kTable,
                 .writable = true,
                 .filterable = true,
                 .encodable = true,
                 .delimiter = ',',
                 .quotes = true},
    FormatTraits{.format = DataFormat::kTsv,
                 .name = "tsv",
                 .layout = RecordLayout::kTable,
                 .writable = true,
                 .filterable = true,
                 .encodable = true,
                 .delimiter = '\t'},
    FormatTraits{.format = DataFormat::kCriteo,
                 .name = "criteo",
                 .layout = RecordLayout::kTable,
                 .writable = true,
                 .filterable = true,
                 .ending = "tsv",
                 .delimiter = '\t',
                 .default_fields = criteo_fields,
                 .own_columns = true},
    FormatTraits{.format = DataFormat::kMnist,
                 .name = "mnist",
                 .layout = RecordLayout::kImages,
                 .default_fields = mnist_fields},
    FormatTraits{.format = DataFormat::kTfrecord,
                 .name = "tfrecord",
                 .layout = RecordLayout::kFrames,
                 .typed = true,
                 .writable = true,
                 .filterable = true,
                 .encodable = true},
    FormatTraits{.format = DataFormat::kNpy,
                 .name = "npy",
                 .layout = RecordLayout::kArrays,
                 .typed = true,
                 .has_paths = true,
                 .writable = true,
                 .encodable = true},
    FormatTraits{.format = DataFormat::kNpz,
                 .name = "npz",
                 .layout = RecordLayout::kArrays,
                 .typed = true,
                 .has_paths = true,
                 .copied_as = DataFormat::kNpy},
    FormatTraits{.format = DataFormat::kJsonl,
                 .name = "jsonl",
                 .layout = RecordLayout::kJsonLines,
                 .typed = true,
                 .has_paths = true,
                 .writable = true,
                 .filterable = true,
                 .encodable = true},
    FormatTraits{.format = DataFormat::kLibffm,
                 .name = "libffm",
                 .layout = RecordLayout::kSparseLines,
                 .writable = true,
                 .filterable = true,
                 .default_fields = sparse_line_fields},
    FormatTraits{.format = DataFormat::kMemory,
                 .name = "memory",
                 .layout = RecordLayout::kColumns,
                 .typed = true},
};

constexpr bool formats_are_in_order() {
  for (size_t i = 0; i < kFormats.size(); ++i)
    if (size_t(kFormats[i].format) != i) return false;
  return kFormats.size() == size_t(DataFormat::kLast) + 1;
}
static_assert(formats_are_in_order(), "kFormats needs one entry per DataFormat, in its order");

constexpr const FormatTraits& traits_of(DataFormat format) { return kFormats[size_t(format)]; }
constexpr RecordLayout layout_of(DataFormat format) { return traits_of(format).layout; }
/// Returns whether the format is known: stated or detected.
constexpr bool is_decided(DataFormat format) { return format != DataFormat::kAuto; }
constexpr bool is_table(DataFormat format) { return layout_of(format) == RecordLayout::kTable; }
/// Returns true if the names of the columns come from a header or from the job, not from the
/// format.
constexpr bool has_named_columns(DataFormat format) {
  return is_table(format) && !traits_of(format).own_columns;
}
constexpr bool is_arrays(DataFormat format) { return layout_of(format) == RecordLayout::kArrays; }
constexpr bool has_sparse_lines(DataFormat format) {
  return layout_of(format) == RecordLayout::kSparseLines;
}
constexpr bool is_frames(DataFormat format) { return layout_of(format) == RecordLayout::kFrames; }
constexpr bool is_images(DataFormat format) { return layout_of(format) == RecordLayout::kImages; }
constexpr bool is_memory(DataFormat format) { return layout_of(format) == RecordLayout::kColumns; }
/// Returns whether each record is a line of text.
constexpr bool is_lines(DataFormat format) {
  return !is_arrays(format) && !is_frames(format) && !is_images(format) && !is_memory(format);
}

/// Returns the fields that a format defines itself; empty for most formats.
std::vector<FieldSpec> default_fields(DataFormat format);
/// Returns the columns that a format defines itself (criteo's 40); empty for the others.
std::vector<std::string> default_columns(DataFormat format);

}  // namespace downpour
