/* The characters that the network reads, by symbol. Written by train.py. */
enum { SYMBOLS = 82, BLANK = 0 };
static const char *const characters[SYMBOLS] = {
    "", " ", "a", "b", "c", "d", "e", "f", "g", "h",
    "i", "j", "k", "l", "m", "n", "o", "p", "q", "r",
    "s", "t", "u", "v", "w", "x", "y", "z", "\303\244", "\303\266",
    "\303\274", "\303\237", "\305\277", "A", "B", "C", "D", "E", "F", "G",
    "H", "I", "J", "K", "L", "M", "N", "O", "P", "Q",
    "R", "S", "T", "U", "V", "W", "X", "Y", "Z", "\303\204",
    "\303\226", "\303\234", "0", "1", "2", "3", "4", "5", "6", "7",
    "8", "9", ".", ",", ";", ":", "!", "?", "-", "(",
    ")", "'",
};
