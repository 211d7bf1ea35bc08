// The program `downpour-chief`.
#include "chief/program.h"

int main(int argc, char** argv) { return downpour::chief::run_program(argc, argv); }
