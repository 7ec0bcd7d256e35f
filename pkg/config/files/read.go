package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/fairlead/fairlead/pkg/config"
)

// Stdin is the path that means standard input.
const Stdin = "-"

// Read returns the content of a configuration file, at most config.MaxBytes. Errors name the path and what to do.
func Read(path string) ([]byte, error) {
	if path == Stdin {
		return read(os.Stdin, "standard input")
	}
	if path == "" {
		return nil, errors.New("the path of the configuration file is empty; name a file")
	}
	f, err := os.Open(path)
	if err != nil {
		var cause *fs.PathError
		switch {
		case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(path, "-"):
			return nil, fmt.Errorf("%s: no such file; it looks like a flag, so the value of the flag before it is missing", path)
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%s: no such file; check the path and the mount", path)
		case errors.Is(err, fs.ErrPermission):
			return nil, fmt.Errorf("%s: no permission; make it readable for the user that fairlead runs as", path)
		case errors.As(err, &cause):
			return nil, fmt.Errorf("%s: %w", path, cause.Err)
		}
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was read only
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s: is a directory; name the file in it", path)
	}
	return read(f, path)
}

func read(from io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, config.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: reading after %d bytes: %w", name, len(data), err)
	}
	if len(data) > config.MaxBytes {
		return nil, fmt.Errorf("%s: longer than %d bytes, the bound of a configuration", name, config.MaxBytes)
	}
	return data, nil
}
