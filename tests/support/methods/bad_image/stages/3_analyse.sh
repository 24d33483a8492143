#!/bin/sh
echo "3_analyse"
