// The program `downpour-worker`.
#include "worker/program.h"

int main(int argc, char** argv) { return downpour::worker::run_program(argc, argv); }
