// Where an item stands at a point of its own: how many scores S_j.a + c_j are above its own by more than a gap, and at
// least its own less the gap. LANES threads, a warp, share the items of TOGETHER points; no score goes through memory.

#define EACH _Pragma("unroll")

// `slopes` S (problems, K, items), `intercepts` c (problems, items), -inf for what does not count, `gaps` (problems,);
// `points` a (rows, K) and `own` items (rows,) of the problems `owner` (rows,), ascending; `above`, `near` (rows,).
extern "C" __global__ void __launch_bounds__(THREADS) ranks(
        const double* slopes, const double* intercepts, const double* gaps, const double* points,
        const long long* own, const long long* owner, long long* above, long long* near, int rows, int items) {
    int lane = threadIdx.x % LANES, row = (blockIdx.x * THREADS + threadIdx.x) / LANES * TOGETHER;
    int end = min(row + TOGETHER, rows);
    while (row < end) {
        long long problem = owner[row];
        int count = 1;
        while (row + count < end && owner[row + count] == problem) count++;
        const double *S = slopes + problem * K * items, *c = intercepts + problem * items;
        double a[TOGETHER][K], high[TOGETHER], low[TOGETHER];
        int higher[TOGETHER], nearer[TOGETHER];
        EACH for (int i = 0; i < TOGETHER; i++) {
            int at = row + min(i, count - 1);
            double score = c[own[at]];
            EACH for (int k = 0; k < K; k++) {
                a[i][k] = points[(long long)at * K + k];
                score += a[i][k] * S[(long long)k * items + own[at]];
            }
            high[i] = score + gaps[problem], low[i] = score - gaps[problem], higher[i] = nearer[i] = 0;
        }
        for (int j = lane; j < items; j += LANES) {
            double s[K], level = c[j];
            EACH for (int k = 0; k < K; k++) s[k] = S[(long long)k * items + j];
            EACH for (int i = 0; i < TOGETHER; i++) {
                double score = level;
                EACH for (int k = 0; k < K; k++) score += a[i][k] * s[k];
                higher[i] += score > high[i], nearer[i] += score >= low[i];
            }
        }
        EACH for (int i = 0; i < TOGETHER; i++) {
            for (int apart = LANES / 2; apart; apart /= 2) {
                higher[i] += __shfl_xor_sync(0xffffffff, higher[i], apart);
                nearer[i] += __shfl_xor_sync(0xffffffff, nearer[i], apart);
            }
            if (lane == 0 && i < count) above[row + i] = higher[i], near[row + i] = nearer[i];
        }
        row += count;
    }
}
