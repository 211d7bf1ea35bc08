// The program `downpour-worker`.
#include "ps/program.h"
#include "worker/program.h"

int main(int argc, char** argv) {
  return downpour::worker::run_program(argc, argv, downpour::ps::start_ps);
}
