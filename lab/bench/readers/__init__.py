"""Compare the trainer's data reader with four libraries that read images from S3."""
