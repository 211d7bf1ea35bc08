// The C interface of libdownpour.so: training and predictions on data in memory, and training of a
// model that the program computes, with the ps of a job.
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

/// Columns of records in memory.
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
/// Returns the number of rows.
DP_API uint64_t dp_table_rows(const dp_table* table);
/// Frees a table. A training or prediction that uses it must have ended.
DP_API void dp_table_free(dp_table* table);

// ---- training

/// A trained model. It does not change.
typedef struct dp_model dp_model;

/// What to train, and on which data.
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
/// Reads what dp_model_to_bytes() has returned. Error 65: the bytes are no model.
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
/// Writes the values before the functions of the outputs instead: logits, logarithms of rates, or
/// the numbers of a regression.
DP_API int32_t dp_predict_raw(const dp_model* model, const dp_table* table, uint32_t threads,
                              float* out, size_t floats);
/// Frees a model, with the texts that describe it.
DP_API void dp_model_free(dp_model* model);

/// Frees memory that a function has returned and that says so.
DP_API void dp_free(void* memory);

// ---- clients: a worker of a running job whose gradients the program computes
//
// The job declares `model.variables` in place of layers. A client leases records, pulls the values
// of the variables and pushes gradients as a downpour-worker does, on a thread of its own, so each
// record counts once, whichever process ends. The threads of the program ask for batches:
//
//   while (dp_client_next(client, 100, &batch) == 0) {
//     if (batch == NULL && dp_client_finished(client)) break;
//     if (batch == NULL) continue;  // none yet
//     // dp_batch_numbers(), dp_batch_keys(), dp_batch_variable(): compute the gradients
//     const int32_t error = dp_client_push(client, batch, &push);
//     dp_batch_free(batch);
//     if (error != 0) break;  // dp_last_error() describes it
//   }

/// A worker of a job, in this process.
typedef struct dp_client dp_client;
/// Records of a batch, with the values of the variables that they need.
typedef struct dp_batch dp_batch;

/// How to reach the chief of a job.
typedef struct dp_client_options {
  size_t struct_size;
  const char* chief;           // HOST:PORT or an endpoint
  const char* keys;            // folder with the keys of the job, or a key file; NULL: none
  int32_t insecure;            // not 0: the job uses no keys (--insecure)
  int32_t allow_exec;          // not 0: the job may start programs in this process to read data
  uint32_t connect_timeout_s;  // 0: 10
} dp_client_options;

/// Starts a client, and does not wait for the chief. Errors: 64 and 77 as for downpour-worker.
DP_API int32_t dp_client_open(const dp_client_options* options, dp_client** client);

/// Describes the model as a JSON object, as soon as the chief has sent the job:
/// - "variables": "name", "shape" of a dense one, or "dim" and "table" of rows
/// - "numbers": "field", "width" (values in a record)
/// - "keys": "field", "table"
/// - "outputs": "name", "loss", "target", "weights", "width" (values of a prediction)
/// - "in_flight": batches that dp_client_next() gives out before one is pushed
/// Sets *json to NULL if there is no answer within `timeout_ms`. Valid as long as the client.
/// Errors: those that end a worker.
DP_API int32_t dp_client_describe(dp_client* client, uint32_t timeout_ms, const char** json);

/// Waits for the next batch. Sets *batch to NULL if there is none within `timeout_ms`, or if the
/// client has finished. Errors: those that end a worker, for example 180: the chief is gone.
DP_API int32_t dp_client_next(dp_client* client, uint32_t timeout_ms, dp_batch** batch);
/// Returns 1 if the job or this client has ended, also by an error, and otherwise 0.
DP_API int32_t dp_client_finished(dp_client* client);

/// What a program has computed for a batch.
typedef struct dp_push {
  size_t struct_size;
  // For each variable its gradient, of the size of its values; NULL: 0. They are divided by the
  // number of records (or by the sum of their weights) if train.reduction is "mean". NULL for the
  // batch of an evaluation.
  const float* const* gradients;
  // For each output the predictions [records, width], as logits or values, from which the metrics
  // are computed. NULL: none; an evaluation and synchronous training need them.
  const float* const* predictions;
  // Not 0: `loss` is the mean loss of the records, in place of the loss of the first output.
  int32_t has_loss;
  double loss;
} dp_push;

/// Hands the gradients of a batch to the ps. Reads the memory before it returns. Errors: 64: a
/// value is not finite (unless train.on_nan is "skip"), the batch was pushed already or belongs to
/// another client, or predictions are missing. After an error, the batch may be pushed again.
DP_API int32_t dp_client_push(dp_client* client, dp_batch* batch, const dp_push* push);

/// Ends the client. Batches that were not pushed go to another worker. Batches that exist stay
/// readable, and can't be pushed any more.
DP_API void dp_client_close(dp_client* client);

/// Where the records of a batch come from.
typedef struct dp_batch_info {
  size_t struct_size;
  uint64_t records;
  int32_t training;  // 0: of an evaluation, which needs predictions and no gradients
  uint32_t epoch, shard, batch;
  const char* where;  // place of the records: "clicks.tsv [1000, 250000]"
} dp_batch_info;

/// The memory in the following structs belongs to the batch.
DP_API void dp_batch_describe(const dp_batch* batch, dp_batch_info* info);

/// Returns the values [records, width] of number `index` of the description.
DP_API const float* dp_batch_numbers(const dp_batch* batch, size_t index);

/// The keys of a field in a batch.
typedef struct dp_batch_bag {
  size_t struct_size;
  // Record i has the keys from offsets[i] to offsets[i + 1]; NULL: each record has one.
  const uint32_t* offsets;
  // Row of each key in the values of the variables of its table.
  const uint32_t* rows;
  const float* values;   // of each key; NULL: all 1
  uint64_t count;        // keys of all records
  const uint64_t* keys;  // the key of each row
  uint64_t key_count;    // rows
} dp_batch_bag;

/// Describes keys `index` of the description.
DP_API void dp_batch_keys(const dp_batch* batch, size_t index, dp_batch_bag* bag);

/// Returns the values of variable `index` of the description: a row for each unique key of the
/// batch, or all elements. Sets *floats to their number. You may change them.
DP_API float* dp_batch_variable(dp_batch* batch, size_t index, uint64_t* floats);

/// Frees a batch. If it was not pushed, its records stay with this client until dp_client_close().
DP_API void dp_batch_free(dp_batch* batch);
