// Links what nvcc has compiled; runs where no device is.
int mpi_standard();
int main() { return mpi_standard() >= 3 ? 0 : 1; }
