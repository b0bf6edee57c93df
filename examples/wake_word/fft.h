/* The Fourier transform of 512 real numbers. */
#ifndef FFT_H
#define FFT_H

enum { FFT_SIZE = 512, FFT_BINS = FFT_SIZE / 2 + 1 };

typedef struct fft {
    float cosine[FFT_SIZE]; /* of one turn */
} fft;

void fft_init(fft *f);

/* Real and imaginary parts of the frequencies 0, 1 ... 256, in turns over all samples. */
void fft_forward(const fft *f, const float samples[FFT_SIZE], float re[FFT_BINS], float im[FFT_BINS]);

/* The samples that have these frequencies. */
void fft_inverse(const fft *f, const float re[FFT_BINS], const float im[FFT_BINS], float samples[FFT_SIZE]);

#endif
