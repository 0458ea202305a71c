// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command mkimage writes a container image as a tar file that `ctr images
// import` and `docker load` read. It needs no container engine, no registry and
// no base image. Layers stay uncompressed: nothing travels, and the import is
// several times faster. Equal arguments and contents give equal bytes.
//
//	mkimage -tag NAME:TAG -o FILE [-user U] [-workdir DIR] [-env K=V]... [-entrypoint ARG]... [-cmd ARG]... LAYERS
//
// LAYERS are read from left to right:
//
//	-layer FILE.tar            a ready layer
//	-new-layer                 the next files go to a new layer
//	-owner UID:GID             owner of the files that follow (0:0)
//	-add SRC=/DST              a file, with its permissions
//	-text /DST=TEXT            a file with this text
//	-dir /DST=MODE             a folder with this octal mode
//
// Folders above a file are made as needed, for the same owner unless root's.
package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mkimage:", err)
		os.Exit(1)
	}
}

// image is what the flags asked for.
type image struct {
	tag    string
	config containerConfig
	layers []layer
	owner  owner
}

type containerConfig struct {
	User       string   `json:"User,omitempty"`
	Env        []string `json:"Env,omitempty"`
	Entrypoint []string `json:"Entrypoint,omitempty"`
	Cmd        []string `json:"Cmd,omitempty"`
	WorkingDir string   `json:"WorkingDir,omitempty"`
}

// layer is a ready tar file or else a list of entries.
type layer struct {
	file    string
	entries []entry
}

type owner struct{ uid, gid int }

// entry is one file (from source, or text) or one folder of a layer.
type entry struct {
	name   string
	source string
	text   string
	dir    bool
	mode   int64
	owner  owner
}

func run(args []string) error {
	img := image{config: containerConfig{Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}}
	out := ""
	flags := flag.NewFlagSet("mkimage", flag.ContinueOnError)
	flags.StringVar(&out, "o", "", "output `file`")
	flags.StringVar(&img.tag, "tag", "", "image `name:tag`")
	flags.StringVar(&img.config.User, "user", "", "`user` that runs the process")
	flags.StringVar(&img.config.WorkingDir, "workdir", "", "working `folder`")
	flags.Func("env", "environment `K=V`", appendTo(&img.config.Env))
	flags.Func("entrypoint", "one `argument` of the entry point", appendTo(&img.config.Entrypoint))
	flags.Func("cmd", "one `argument` of the command", appendTo(&img.config.Cmd))
	flags.Func("layer", "ready layer `file.tar`", func(file string) error {
		img.layers = append(img.layers, layer{file: file}, layer{})
		return nil
	})
	flags.BoolFunc("new-layer", "start a layer", func(string) error {
		img.layers = append(img.layers, layer{})
		return nil
	})
	flags.Func("owner", "`uid:gid` of what follows", img.setOwner)
	flags.Func("add", "`src=/dst`", img.addFile)
	flags.Func("text", "`/dst=text`", img.addText)
	flags.Func("dir", "`/dst=mode`", img.addDir)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || out == "" || img.tag == "" {
		return errors.New("-o and -tag are needed, and there are no arguments but flags")
	}
	return img.writeFile(out)
}

func appendTo(list *[]string) func(string) error {
	return func(value string) error {
		*list = append(*list, value)
		return nil
	}
}

func (img *image) setOwner(value string) error {
	uid, gid, _ := strings.Cut(value, ":")
	var err error
	if img.owner.uid, err = strconv.Atoi(uid); err != nil {
		return err
	}
	img.owner.gid, err = strconv.Atoi(gid)
	return err
}

func (img *image) addFile(value string) error {
	source, name, err := cutPath(value, 1)
	if err != nil {
		return err
	}
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%q is not a regular file", source)
	}
	img.append(entry{name: name, source: source, mode: int64(info.Mode().Perm())})
	return nil
}

func (img *image) addText(value string) error {
	text, name, err := cutPath(value, 0)
	if err != nil {
		return err
	}
	img.append(entry{name: name, text: text, mode: 0o644})
	return nil
}

func (img *image) addDir(value string) error {
	octal, name, err := cutPath(value, 0)
	if err != nil {
		return err
	}
	mode, err := strconv.ParseInt(octal, 8, 32)
	if err != nil {
		return err
	}
	img.append(entry{name: name, dir: true, mode: mode})
	return nil
}

// cutPath splits A=B; the part at the given place is the path in the image.
func cutPath(value string, place int) (other, name string, err error) {
	left, right, ok := strings.Cut(value, "=")
	if !ok {
		return "", "", fmt.Errorf("%q has no '='", value)
	}
	other, name = right, left
	if place == 1 {
		other, name = left, right
	}
	if !path.IsAbs(name) || path.Clean(name) != name || name == "/" {
		return "", "", fmt.Errorf("%q is not a clean absolute path", name)
	}
	return other, strings.TrimPrefix(name, "/"), nil
}

func (img *image) append(e entry) {
	e.owner = img.owner
	if len(img.layers) == 0 {
		img.layers = append(img.layers, layer{})
	}
	last := &img.layers[len(img.layers)-1]
	last.entries = append(last.entries, e)
}

// writeFile writes beside the file and renames, so that it is whole or absent.
func (img *image) writeFile(file string) error {
	temp := file + ".part"
	f, err := os.Create(temp)
	if err != nil {
		return err
	}
	defer os.Remove(temp)
	if err := errors.Join(img.write(f), f.Close()); err != nil {
		return err
	}
	return os.Rename(temp, file)
}

// write makes a docker archive: the layers, the configuration that names them
// by digest, and the manifest that ties these to a tag.
func (img *image) write(w io.Writer) error {
	archive := tar.NewWriter(w)
	var names, digests []string
	for _, l := range img.layers {
		if l.file == "" && len(l.entries) == 0 {
			continue
		}
		size, digest, err := l.measure()
		if err != nil {
			return err
		}
		name := digest + ".tar"
		if err := archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: size}); err != nil {
			return err
		}
		if err := l.write(archive); err != nil {
			return err
		}
		names, digests = append(names, name), append(digests, "sha256:"+digest)
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"created":      time.Unix(0, 0).UTC(),
		"config":       img.config,
		"rootfs":       map[string]any{"type": "layers", "diff_ids": digests},
	})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(config)
	configName := hex.EncodeToString(sum[:]) + ".json"
	manifest, err := json.Marshal([]map[string]any{{"Config": configName, "RepoTags": []string{img.tag}, "Layers": names}})
	if err != nil {
		return err
	}
	if err := errors.Join(writeText(archive, configName, config), writeText(archive, "manifest.json", manifest)); err != nil {
		return err
	}
	return archive.Close()
}

func writeText(archive *tar.Writer, name string, text []byte) error {
	if err := archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))}); err != nil {
		return err
	}
	_, err := archive.Write(text)
	return err
}

// measure produces the layer once for its size and digest, which the archive
// wants before the content. It comes from the page cache the second time.
func (l layer) measure() (size int64, digest string, err error) {
	hash, count := sha256.New(), counter(0)
	if err := l.write(io.MultiWriter(hash, &count)); err != nil {
		return 0, "", err
	}
	return int64(count), hex.EncodeToString(hash.Sum(nil)), nil
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func (l layer) write(w io.Writer) error {
	if l.file != "" {
		return copyFile(w, l.file)
	}
	archive := tar.NewWriter(w)
	made := map[string]bool{}
	for _, e := range l.entries {
		if err := writeParents(archive, e, made); err != nil {
			return err
		}
		if err := e.write(archive); err != nil {
			return fmt.Errorf("adding %q: %w", e.name, err)
		}
		made[e.name] = e.dir
	}
	return archive.Close()
}

// writeParents adds the folders above an entry. Those that another layer has,
// it would change: so system folders stay root's with their usual mode.
func writeParents(archive *tar.Writer, e entry, made map[string]bool) error {
	parts := strings.Split(e.name, "/")
	for i := 1; i < len(parts); i++ {
		name := strings.Join(parts[:i], "/")
		if made[name] {
			continue
		}
		made[name] = true
		parent := entry{name: name, dir: true, mode: 0o755}
		if strings.HasPrefix(name, "home/") {
			parent.owner = e.owner
		}
		if err := parent.write(archive); err != nil {
			return err
		}
	}
	return nil
}

func (e entry) write(archive *tar.Writer) error {
	header := &tar.Header{Name: e.name, Typeflag: tar.TypeReg, Mode: e.mode, Uid: e.owner.uid, Gid: e.owner.gid, ModTime: time.Unix(0, 0)}
	if e.dir {
		header.Name, header.Typeflag = e.name+"/", tar.TypeDir
		return archive.WriteHeader(header)
	}
	if e.source == "" {
		header.Size = int64(len(e.text))
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err := io.WriteString(archive, e.text)
		return err
	}
	info, err := os.Stat(e.source)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeType != 0 {
		return fmt.Errorf("%q is not a regular file", e.source)
	}
	header.Size = info.Size()
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	return copyFile(archive, e.source)
}

func copyFile(w io.Writer, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
