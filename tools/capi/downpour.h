// The C interface of libdownpour.so: training and predictions on data in memory.
//
// - Functions that can fail return 0, or the exit status that the program `downpour` has for the
//   error (65: bad data, 78: an error in the job, ...). dp_last_error() then describes the error.
// - Texts are UTF-8 and end with a zero byte. Structs with a member `struct_size` may grow: set it
//   to sizeof the struct, and all other bytes that you do not need to 0.
// - A callback is only called by the thread that called the function with the callback.
// - A handle may be used by several threads at the same time, except in its free function.
// - After fork(), the child process must not call these functions.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define DP_API extern "C" __attribute__((visibility("default")))
#else
#define DP_API __attribute__((visibility("default")))
#endif

/// Returns the version of the library, for example "0.1.0". The string is constant.
DP_API const char* dp_version(void);

// ---- errors

/// An error: what happened, where, and what to do about it. Every text may be empty. The texts are
/// valid until the next call of the same thread.
typedef struct dp_error {
  size_t struct_size;
  int32_t code;    // as returned
  const char* id;  // "DP-2104": `downpour explain DP-2104` describes it
  const char* what;
  const char* where;  // key of the job, row, or path
  const char* hint;
} dp_error;

/// Describes the last error of this thread.
DP_API void dp_last_error(dp_error* error);

// ---- tables: columns in memory; row i of every column is record i

enum {
  DP_NUMBERS = 0,     // `width` numbers in each row
  DP_TEXTS = 1,       // a text in each row
  DP_DICTIONARY = 2,  // in each row the index of a text; a negative index is a missing value
  DP_PAIRS = 3        // any number of keys with values in each row: a compressed sparse row matrix
};

/// A column. The memory is not copied, and must not change while the table exists.
typedef struct dp_column {
  size_t struct_size;
  const char* name;
  int32_t kind;
  // Type of the numbers, indices or values of pairs as in NumPy: '<' or '>' (or '|'), then b, i, u
  // or f, then the bytes: "<f4", "<i8", "|b1".
  const char* type;
  const void* values;  // numbers or indices, or the values of all pairs; NaN: missing
  int64_t stride;      // bytes from one row to the next; may be negative or 0; not used for pairs
  uint64_t width;      // numbers in each row; adjacent
  // Bit valid_begin + i, the lowest bit of each byte first: row i has a value. NULL: every row has.
  const uint8_t* valid;
  uint64_t valid_begin;
  // DP_TEXTS, DP_DICTIONARY: text i is the bytes of `text` from offsets[i] to offsets[i + 1].
  const void* offsets;  // int32_t, or int64_t if wide_offsets is not 0
  int32_t wide_offsets;
  const char* text;
  uint64_t text_count;  // DP_DICTIONARY
  // DP_PAIRS: row i has the pairs from starts[i] to starts[i + 1], and their keys.
  const char* start_type;  // "<i4" or "<i8"
  const void* starts;
  const char* key_type;
  const void* keys;  // 0 or more
} dp_column;

typedef struct dp_table dp_table;

/// Makes a table. Errors: 65 names the column.
DP_API int32_t dp_table_create(uint64_t rows, const dp_column* columns, size_t column_count,
                               dp_table** table);

struct ArrowSchema;
struct ArrowArray;
/// Makes a table of a struct array of Arrow's C data interface. Takes over both structs and
/// releases them with the table, or at once if there is an error. Columns of numbers, booleans,
/// texts and dictionaries of texts can be read. Other columns are an error (65).
DP_API int32_t dp_table_from_arrow(struct ArrowSchema* schema, struct ArrowArray* array,
                                   dp_table** table);

/// Returns the name of the table as a source of a job, for example "memory:7".
DP_API const char* dp_table_name(const dp_table* table);
DP_API uint64_t dp_table_rows(const dp_table* table);
DP_API void dp_table_free(dp_table* table);

// ---- training

typedef struct dp_model dp_model;

typedef struct dp_training {
  size_t struct_size;
  const char* job;       // text of a job file; NULL: a model is chosen for the data
  const char* folder;    // where relative paths of the job start; NULL: "/"
  const dp_table* data;  // NULL: the job names its data
  // Keys of the job that take precedence, as "KEY=VALUE". To evaluate with another table:
  // "eval.source=" and its dp_table_name().
  const char* const* settings;
  size_t setting_count;
  uint32_t threads;  // 0: as many as this process may use
  // Called at least ten times a second with a JSON object: {"epoch", "epochs", "records",
  // "records_per_second", "history"}. "history" has the objects of history.jsonl that are new.
  // Training ends early if it returns a value other than 0. May be NULL.
  int32_t (*on_progress)(const char* json, void* user);
  void* user;
} dp_training;

/// Trains a model in this process: without run folder, sockets and signal handlers.
DP_API int32_t dp_train(const dp_training* training, dp_model** model);

// ---- models

/// Reads the run folder of a training, or what dp_model_save() has written.
DP_API int32_t dp_model_load(const char* folder, dp_model** model);
DP_API int32_t dp_model_from_bytes(const void* bytes, size_t size, dp_model** model);
/// Writes a run folder, which `downpour predict` and `downpour export` read. Error 73: it has a run
/// already.
DP_API int32_t dp_model_save(const dp_model* model, const char* folder);
/// Returns the model as one piece. Free it with dp_free().
DP_API int32_t dp_model_to_bytes(const dp_model* model, void** bytes, size_t* size);

/// Describes the model as a JSON object: "job" (text), "outputs" ("name", "target", "weights",
/// "loss", "width", "classes"), "columns" (names and types that predictions need), "history" (of
/// each epoch), "reason" (why this model was chosen), "warnings", "stopped". Valid as long as the
/// model.
DP_API const char* dp_model_describe(const dp_model* model);
/// Returns the floats that dp_predict() writes for each row: those of all outputs.
DP_API uint32_t dp_model_row_floats(const dp_model* model);
/// Writes the predictions of all rows: for each row the values of the first output, then those of
/// the next. `floats` is the room in `out`: rows times dp_model_row_floats(). `threads` as in
/// dp_training; the result does not depend on it. Error 66: a column is missing.
DP_API int32_t dp_predict(const dp_model* model, const dp_table* table, uint32_t threads,
                          float* out, size_t floats);
DP_API void dp_model_free(dp_model* model);

DP_API void dp_free(void* memory);
