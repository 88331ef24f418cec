// `_inverse_traces` (curvature) for a GPU: the same steps, a thread for each row.

#define EACH _Pragma("unroll")

// out (rows,): the trace of the inverse of each matrix (rows, K, K), infinite where one is not positive.
extern "C" __global__ void traces(const double* matrices, double* out, int rows) {
    int row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows) return;
    const double* A = matrices + (long long)row * K * K;
    double factor[K * K], column[K], total = 0.0;
    EACH for (int i = 0; i < K; i++) EACH for (int j = 0; j <= i; j++) {
        double entry = A[i * K + j];
        EACH for (int m = 0; m < j; m++) entry -= factor[i * K + m] * factor[j * K + m];
        if (i > j) factor[i * K + j] = entry * factor[j * K + j];
        else if (entry > 0.0) factor[i * K + i] = 1.0 / sqrt(entry);
        else factor[i * K + i] = 0.0, total = 1.0 / 0.0;
    }
    EACH for (int k = 0; k < K; k++) EACH for (int i = k; i < K; i++) {
        double entry = i == k ? 1.0 : 0.0;
        EACH for (int m = k; m < i; m++) entry -= factor[i * K + m] * column[m];
        column[i] = entry * factor[i * K + i];
        total += column[i] * column[i];
    }
    out[row] = total;
}
